// One job's shard at work: its session, and the ports of the workers that reach it over
// connections. Driven by whoever owns the event loop: a rank (embedded) or a daemon (dedicated).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "aggregator/session.h"
#include "aggregator/worker_port.h"
#include "encoder/kernels.h"
#include "protocol/slot_memory.h"
#include "transport/connection.h"

namespace omniccl {

// The rank in whose process the shard lives, if there is one: it has no port.
class LocalWorker {
 public:
  // All other ranks have contributed to the next chunk. Adds this rank's contribution, so that what
  // its scan reads is in the cache for the sum; or does nothing when there is none.
  virtual void contribute(Session& session) = 0;
  virtual void take(const ChunkSum& sum) = 0;
  virtual std::uint32_t rank() const = 0;

 protected:
  ~LocalWorker() = default;
};

class Shard final : private OutgoingFrame::Owner {
 public:
  // `size` ranks. `payload_checksum`: whether results carry one.
  Shard(std::uint32_t size, const SlotMemory& memory, const KernelTable& kernels,
        bool payload_checksum);

  // The port of the worker of `rank`, at its end of `connection`.
  WorkerPort& add_port(std::uint32_t rank, std::unique_ptr<Connection> connection);

  // Sums and sends up to `most` chunks for which all contributions are there. Returns whether there
  // was any.
  bool sum_chunks(unsigned most, LocalWorker* local);

  // Whether the next chunk lacks the contribution of `rank`.
  bool waits_for(std::uint32_t rank) const { return session_.waits_for(rank); }
  // Whether any contribution waits to be summed.
  bool has_contributions() const { return session_.has_contributions(); }
  // Whether every result is with the fabric.
  bool all_sent() const;
  const std::vector<std::unique_ptr<WorkerPort>>& ports() const { return ports_; }

 private:
  void frame_sent(std::uint64_t ticket) override { session_.release(ticket); }

  SlotMemory memory_;
  Session session_;
  bool payload_checksum_;
  std::vector<std::unique_ptr<WorkerPort>> ports_;
};

}  // namespace omniccl
