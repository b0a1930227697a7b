#include "aggregator/worker_port.h"

#include <utility>

#include "base/error.h"
#include "encoder/block_bitmap.h"

namespace omniccl {
namespace {

// The runs of `sum` that go to a worker whose exclusive blocks are `exclusive`.
void list_runs(const ChunkSum& sum, ByteSpan exclusive, std::vector<iovec>& runs) {
  runs.clear();
  std::size_t offset = 0;
  SegmentCursor cursor;
  const auto add = [&](std::size_t bytes) {
    const std::byte* begin = sum.sums.data() + offset;
    if (!runs.empty() &&
        static_cast<std::byte*>(runs.back().iov_base) + runs.back().iov_len == begin) {
      runs.back().iov_len += bytes;
    } else {
      // iovec has no const; the runs are only read.
      runs.push_back({const_cast<std::byte*>(begin), bytes});
    }
  };
  for_each_run(sum.blocks, sum.united, [&](std::size_t first, std::size_t count) {
    cursor.visit(
        [&](std::size_t i) -> const BlockSegment& { return sum.segments[i]; }, first, count,
        [&](std::size_t index, std::uint32_t in_segment, std::uint32_t part) {
          const BlockSegment& segment = sum.segments[index];
          for (std::uint32_t i = 0; i < part; ++i, ++first) {
            const std::size_t bytes = segment.elements_of(in_segment + i, 1) * sum.element_size;
            if (!test_bit(exclusive, first)) add(bytes);
            offset += bytes;
          }
        });
  });
}

}  // namespace

WorkerPort::WorkerPort(std::uint32_t rank, std::unique_ptr<Connection> connection, Session& session,
                       std::uint64_t max_chunk_bytes)
    : rank_(rank),
      connection_(std::move(connection)),
      session_(session),
      max_chunk_bytes_(max_chunk_bytes) {}

void WorkerPort::send_result(const ChunkSum& sum, SumChecksum* checksum,
                             OutgoingFrame::Owner& owner) {
  const std::vector<std::byte>& exclusive = sum.exclusive[rank_];
  list_runs(sum, exclusive, runs_);
  OutgoingFrame& frame = connection_->prepare();
  encode_result(sum.operation, sum.chunk, sum.blocks, sum.united, exclusive, frame.begin());
  std::optional<std::uint32_t> own;
  if (checksum != nullptr) {
    const bool all = total_bytes(runs_) == sum.sums.size();
    own = all ? checksum->of(runs_) : crc32c(runs_);
  }
  frame.finish(FrameKind::kResult, runs_, own, &owner, sum.ticket);
  connection_->submit();
}

void WorkerPort::begin_frame(const FrameHead& frame, std::vector<iovec>& payload) {
  if (frame.kind == FrameKind::kAbort) throw PeerAborted(decode_abort(frame.head));
  if (frame.kind != FrameKind::kContribution) {
    throw Error(ErrorKind::kPeerFailure, "sent a frame that a shard does not take");
  }
  decode_contribution(frame.head, max_chunk_bytes_, message_);
  const MutableByteSpan room = session_.reserve(rank_, message_, frame.payload_bytes);
  if (!room.empty()) payload.push_back({room.data(), room.size()});
}

void WorkerPort::end_frame() { session_.commit(rank_); }

}  // namespace omniccl
