// A shard's end of the connection to one worker: takes contributions in, sends results out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "aggregator/session.h"
#include "protocol/checksum.h"
#include "transport/connection.h"

namespace omniccl {

// The checksum of all the blocks of a sum, which is computed once for all workers that get them
// all.
class SumChecksum {
 public:
  std::uint32_t of(Span<const iovec> all) {
    if (!value_) value_ = crc32c(all);
    return *value_;
  }

 private:
  std::optional<std::uint32_t> value_;
};

class WorkerPort final : public FrameSink {
 public:
  // `session` outlives the port. `max_chunk_bytes` bounds what a contribution may claim to hold.
  WorkerPort(std::uint32_t rank, std::unique_ptr<Connection> connection, Session& session,
             std::uint64_t max_chunk_bytes);

  Connection& connection() { return *connection_; }
  const Connection& connection() const { return *connection_; }
  std::uint32_t rank() const { return rank_; }

  // Queues the worker's view of `sum`: all blocks but those that only it has. `owner` hears
  // frame_sent(sum.ticket) once the sums are not needed for it any more. `checksum` is that of this
  // sum, if results carry one.
  void send_result(const ChunkSum& sum, SumChecksum* checksum, OutgoingFrame::Owner& owner);

  void begin_frame(const FrameHead& frame, std::vector<iovec>& payload) override;
  void end_frame() override;

 private:
  std::uint32_t rank_;
  std::unique_ptr<Connection> connection_;
  Session& session_;
  std::uint64_t max_chunk_bytes_;
  ContributionMessage message_;
  std::vector<iovec> runs_;
};

}  // namespace omniccl
