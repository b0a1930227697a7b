#include "aggregator/shard.h"

#include <algorithm>
#include <utility>

#include "protocol/limits.h"

namespace omniccl {

Shard::Shard(std::uint32_t size, const SlotMemory& memory, const KernelTable& kernels,
             bool payload_checksum)
    : memory_(memory), session_(size, memory, kernels), payload_checksum_(payload_checksum) {}

WorkerPort& Shard::add_port(std::uint32_t rank, std::unique_ptr<Connection> connection) {
  ports_.push_back(
      std::make_unique<WorkerPort>(rank, std::move(connection), session_, memory_.chunk_bytes));
  return *ports_.back();
}

bool Shard::sum_chunks(unsigned most, LocalWorker* local) {
  // A peer that takes no results gets no more: results without blocks cost no slot memory.
  const bool unread = std::any_of(ports_.begin(), ports_.end(), [](const auto& port) {
    return port->connection().unsent_frames() >= kMaxChunksInFlight;
  });
  if (unread) return false;
  unsigned summed = 0;
  for (; summed < most; ++summed) {
    if (local != nullptr && session_.waits_only_for(local->rank())) local->contribute(session_);
    const ChunkSum* const sum = session_.reduce();
    if (sum == nullptr) break;
    SumChecksum checksum;
    for (const auto& port : ports_) {
      port->send_result(*sum, payload_checksum_ ? &checksum : nullptr, *this);
    }
    if (local != nullptr) {
      local->take(*sum);
      session_.release(sum->ticket);
    }
  }
  return summed != 0;
}

bool Shard::all_sent() const {
  return std::all_of(ports_.begin(), ports_.end(),
                     [](const auto& port) { return port->connection().unsent_frames() == 0; });
}

}  // namespace omniccl
