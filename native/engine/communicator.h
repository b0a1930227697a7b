// START HERE. A communicator is one rank's handle to a fixed group of ranks that reduce together.
//
// Its shards are embedded, one in each rank, or dedicated: daemons whose addresses are configured.
//
// Life: construct (opens a listener, where shards are embedded) -> exchange the endpoints by some
// means of the caller's own (Horovod's controller, a vector in a test) -> connect() -> allreduce()
// any number of times, the same operations in the same order on every rank -> destroy.
//
// Threads: none of its own. Whoever calls connect() or allreduce() drives the event loop, worker
// and embedded shard together, until the call is done; one thread at a time. Between calls nothing
// moves.
//
// Failure: the first failure is final. It is told to the peers that can still be reached, and each
// later call throws it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "transport/socket/host_port.h"
#include "transport/transport_choice.h"

namespace omniccl {

struct CommunicatorConfig {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  // Equal on all ranks; make one with SessionCredentials::random(). With aggregators the key is
  // theirs (read_secret_file()).
  SessionCredentials credentials;

  // Dedicated shards; empty: embedded ones. Equal on all ranks. One that is named twice gets two
  // shards, which two of its threads can serve.
  std::vector<HostPort> aggregators;
  // Bytes of aggregation memory of a shard, 0 for the default. Equal on all ranks. A chunk is at
  // most slot_memory_bytes / (2 size), or / (2 (size + 1)) with aggregators.
  std::uint64_t slot_memory_bytes = 0;
  // What carries the data; need not be equal on all ranks.
  Transport transport = Transport::kAuto;
  bool payload_checksum = true;  // CRC32C over block bytes too, not only headers
  bool huge_pages = true;        // ask the system for them where a large output is new
  bool loopback_only = false;    // all ranks are on this host: listen on loopback only
  std::string interface;         // listen and connect on this one only; empty: on all
  std::string congestion_control =
      "auto";                    // of data connections (transport/socket/stream_socket.h)
  std::uint16_t first_port = 0;  // range to listen in, both ends included; 0: any port
  std::uint16_t last_port = 0;
  Milliseconds timeout{30'000};          // no progress inside an operation for this long: failure
  Milliseconds connect_timeout{10'000};  // for connect() as a whole
  const KernelTable* kernels = nullptr;  // nullptr: the best that this processor has
  LogSink log;                           // may be empty
  // Called several times a second while nothing arrives; gives up when it throws. May be empty.
  std::function<void()> interrupted;
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
  // rank or size, Error(kPrecondition) when there is not that much memory, no memory to share where
  // shared memory alone is wanted, no such interface, or no port left in the range.
  explicit Communicator(CommunicatorConfig config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Where the other ranks reach this one. Without addresses when shards are dedicated: then nobody
  // connects to a rank.
  const Endpoint& endpoint() const;

  // Connects to every shard; `endpoints[r]` is rank r's, and does not matter where shards are
  // dedicated. Returns when all connections are authenticated both ways and all ranks are there.
  // Throws Error(kPeerFailure), naming who is missing, after
  // connect_timeout, Error(kPrecondition) when a peer has another key, version or size, or is on
  // another host where shared memory alone is wanted.
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
