// START HERE. A communicator is one rank's handle to a fixed group of ranks that reduce together.
//
// Life: construct (opens a listener) -> exchange the endpoints by some means of the caller's own
// (Horovod's controller, a vector in a test) -> connect() -> allreduce() any number of times, the
// same operations in the same order on every rank -> destroy.
//
// Threads: none of its own. Whoever calls connect() or allreduce() drives the event loop, worker
// and embedded shard together, until the call is done; one thread at a time. Between calls nothing
// moves.
//
// Failure: the first failure is final. It is told to the peers that can still be reached, and each
// later call throws it again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/span.h"
#include "base/stats.h"
#include "encoder/kernels.h"
#include "encoder/tensor_view.h"
#include "protocol/handshake.h"
#include "transport/endpoint.h"

namespace omniccl {

struct CommunicatorConfig {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  SessionCredentials credentials;  // equal on all ranks; make one with SessionCredentials::random()

  // Bytes of aggregation memory per rank, 0 for the default; every rank must pass the same value.
  // A chunk is at most slot_memory_bytes / (2 size).
  std::uint64_t slot_memory_bytes = 0;
  bool payload_checksum = true;          // CRC32C over block bytes too, not only headers
  bool loopback_only = false;            // all ranks are on this host: listen on loopback only
  Milliseconds timeout{30'000};          // no progress inside an operation for this long: failure
  Milliseconds connect_timeout{10'000};  // for connect() as a whole
  const KernelTable* kernels = nullptr;  // nullptr: the best that this processor has
  LogSink log;                           // may be empty
};

// One allreduce (sum) of a list of tensors of one dtype.
struct Reduction {
  DataType dtype = DataType::kFloat32;
  // Each contribution is multiplied by `prescale` and rounded to dtype before it is summed; the sum
  // by `postscale` likewise. Both positive and finite; `prescale` is 1 for integers.
  double prescale = 1.0;
  double postscale = 1.0;
  // Inputs and outputs, read and written in place. Element counts and block sizes must be the same
  // on every rank, in the same order; a difference is an error on every rank.
  Span<const TensorView> tensors;
  std::string_view name;  // for error messages
};

class Communicator {
 public:
  // Throws Error(kSystem) when no listener can be opened, Error(kInvalidArgument) for an impossible
  // rank or size, Error(kPrecondition) when there is not that much memory.
  explicit Communicator(CommunicatorConfig config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Where the other ranks reach this one.
  const Endpoint& endpoint() const;

  // Connects to every rank; `endpoints[r]` is rank r's. Returns when all connections are
  // authenticated both ways. Throws Error(kPeerFailure), naming who is missing, after
  // connect_timeout, Error(kPrecondition) when a peer has another key, version or size.
  void connect(Span<const Endpoint> endpoints);

  // Sums over all ranks, adding in rank order. When it returns or throws, nothing of ours touches
  // the tensors any more; after a throw the outputs hold unspecified values.
  // Throws Error(kPeerFailure) naming the peer and the reason; later calls throw the same.
  void allreduce(const Reduction& reduction);

  // Totals since construction. Not to be called while another call runs.
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace omniccl
