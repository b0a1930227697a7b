#include "encoder/chunk_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace omniccl {

ChunkPlan::ChunkPlan(DataType dtype, Span<const TensorView> tensors, const ChunkLimits& limits)
    : limits_(limits), element_size_(size_of(dtype)) {
  for (const TensorView& tensor : tensors) {
    if (tensor.block_elements == 0) {
      throw Error(ErrorKind::kInvalidArgument, "a block has at least one element");
    }
    if (tensor.elements == 0) continue;
    tensors_.push_back(tensor);
    block_count_ += (tensor.elements - 1) / tensor.block_elements + 1;
    byte_count_ += tensor.elements * element_size_;
  }
  std::uint32_t blocks = 0;
  for (Position at; at.tensor < tensors_.size(); at = advance(at, blocks, nullptr)) {
    if (starts_.size() == std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorKind::kInvalidArgument, "the operation has more than 2^32 - 1 chunks");
    }
    starts_.push_back(at);
  }
}

void ChunkPlan::get(std::uint32_t index, Chunk& chunk) const {
  chunk.index = index;
  chunk.blocks = 0;
  chunk.segments.clear();
  advance(starts_.at(index), chunk.blocks, &chunk.segments);
}

ChunkPlan::Position ChunkPlan::advance(Position start, std::uint32_t& blocks,
                                       std::vector<ChunkSegment>* segments) const {
  Position at = start;
  std::uint64_t bytes = 0;
  std::uint32_t segment_count = 0;
  blocks = 0;
  while (at.tensor < tensors_.size() && segment_count < limits_.max_segments) {
    const TensorView& tensor = tensors_[at.tensor];
    const std::uint64_t block_bytes = std::uint64_t{tensor.block_elements} * element_size_;
    const std::uint64_t rest = (tensor.elements - at.element - 1) / tensor.block_elements + 1;
    const std::uint64_t room = limits_.max_bytes - std::min(bytes, limits_.max_bytes);
    // The last block of a tensor weighs what it holds, not a whole block.
    const bool all = (tensor.elements - at.element) * element_size_ <= room;
    std::uint64_t take =
        std::min(all ? rest : room / block_bytes, std::uint64_t{limits_.max_blocks - blocks});
    if (take == 0 && blocks == 0) take = 1;  // a chunk holds at least one block, however large
    if (take == 0) break;
    const std::uint64_t elements =
        std::min(take * tensor.block_elements, tensor.elements - at.element);
    if (segments != nullptr) {
      const std::uint64_t offset = at.element * element_size_;
      BlockSegment shape;
      shape.blocks = static_cast<std::uint32_t>(take);
      shape.block_elements = tensor.block_elements;
      shape.last_elements =
          static_cast<std::uint32_t>(elements - (take - 1) * tensor.block_elements);
      segments->push_back({shape, tensor.input + offset, tensor.output + offset});
    }
    blocks += static_cast<std::uint32_t>(take);
    bytes += elements * element_size_;
    ++segment_count;
    at.element += elements;
    if (at.element == tensor.elements) at = {at.tensor + 1, 0};
  }
  return at;
}

}  // namespace omniccl
