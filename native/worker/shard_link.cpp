#include "worker/shard_link.h"

#include <utility>

#include "base/error.h"
#include "protocol/checksum.h"
#include "protocol/limits.h"
#include "protocol/wire.h"

namespace omniccl {

void Operation::scan(std::uint64_t index, Chunk& chunk, EncodedChunk& encoded) const {
  plan.get(static_cast<std::uint32_t>(index), chunk);
  encode(chunk, plan.element_size(), *rules.kernels, encoded);
  stats.blocks += encoded.blocks;
  stats.nonzero_blocks += encoded.nonzero_blocks;
}

ShardLink::ShardLink(std::uint32_t shard, std::unique_ptr<Connection> connection,
                     const SlotMemory& memory)
    : shard_(shard),
      connection_(std::move(connection)),
      window_(memory.window_bytes, kMaxChunksInFlight) {}

void ShardLink::begin(const Operation& operation) {
  operation_ = &operation;
  chunk_count_ = operation.plan.chunk_count();
  next_chunk_ = next_result_ = operation.shard_map.first_chunk(shard_);
  has_encoded_ = false;
}

bool ShardLink::produce(unsigned most) {
  unsigned produced = 0;
  for (; produced < most && next_chunk_ < chunk_count_; ++produced) {
    const ScopedTimer timer(operation_->stats.scan_time);
    if (!has_encoded_) {
      operation_->scan(next_chunk_, sending_, encoded_);
      has_encoded_ = true;
    }
    if (!window_.admits(encoded_.payload_bytes)) break;
    queue(encoded_);
    has_encoded_ = false;
    next_chunk_ += operation_->shard_map.stride();
  }
  return produced != 0;
}

void ShardLink::queue(const EncodedChunk& encoded) {
  OutgoingFrame& frame = connection_->prepare();
  encode_contribution(operation_->number, encoded.index, operation_->rules.dtype,
                      operation_->rules.prescale, encoded.blocks, encoded.segments, encoded.bitmap,
                      frame.begin());
  std::optional<std::uint32_t> checksum;
  if (operation_->payload_checksum) checksum = crc32c(encoded.runs);
  frame.finish(FrameKind::kContribution, encoded.runs, checksum);
  connection_->submit();
  window_.sent(encoded.payload_bytes);
}

void ShardLink::begin_frame(const FrameHead& frame, std::vector<iovec>& payload) {
  if (frame.kind == FrameKind::kAbort) throw PeerAborted(decode_abort(frame.head));
  result_begun_ = frame.kind == FrameKind::kResult;
  if (frame.kind == FrameKind::kReady && !ready_ && frame.head.empty() &&
      frame.payload_bytes == 0) {
    ready_ = true;
    return;
  }
  if (!result_begun_) {
    throw Error(ErrorKind::kPeerFailure, "sent a frame that a worker does not take");
  }
  decode_result(frame.head, result_);
  if (operation_ == nullptr || result_.operation != operation_->number || window_.empty() ||
      result_.chunk != next_result_) {
    throw Error(ErrorKind::kPeerFailure, "sent a result that nobody waits for");
  }
  operation_->plan.get(result_.chunk, receiving_);
  if (result_.blocks != receiving_.blocks) {
    throw Error(ErrorKind::kPeerFailure, "sent a result of another number of blocks");
  }
  list_destinations(receiving_, result_.united, result_.exclusive, operation_->plan.element_size(),
                    payload);
  if (total_bytes(payload) != frame.payload_bytes) {
    throw malformed("a payload that does not fit its bitmaps");
  }
}

void ShardLink::end_frame() {
  if (!result_begun_) return;
  const ScopedTimer timer(operation_->stats.decode_time);
  finish_result(receiving_, result_.united, result_.exclusive, operation_->rules);
  window_.credit();
  next_result_ += operation_->shard_map.stride();
}

}  // namespace omniccl
