#include "engine/reduction_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "protocol/limits.h"

namespace omniccl {
namespace {

// In bytes. Throws Error(kInvalidArgument) for a block size that no frame can carry.
std::uint64_t largest_block(const Reduction& reduction) {
  std::uint64_t elements = 0;
  for (const TensorView& tensor : reduction.tensors) {
    if (tensor.block_elements > kMaxBlockElements) {
      throw Error(ErrorKind::kInvalidArgument,
                  "a block has at most " + std::to_string(kMaxBlockElements) + " elements");
    }
    elements = std::max(elements, std::min<std::uint64_t>(tensor.block_elements, tensor.elements));
  }
  return elements * size_of(reduction.dtype);
}

}  // namespace

void check_reduction(const Reduction& reduction, const SlotMemory& memory) {
  const auto valid = [](double factor) { return std::isfinite(factor) && factor > 0; };
  if (!valid(reduction.prescale) || !valid(reduction.postscale)) {
    throw Error(ErrorKind::kInvalidArgument, "scale factors are positive and finite");
  }
  if (is_integer(reduction.dtype) && reduction.prescale != 1.0) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string(name_of(reduction.dtype)) + " takes no prescale factor");
  }
  if (reduction.dtype == DataType::kBool && reduction.postscale != 1.0) {
    throw Error(ErrorKind::kInvalidArgument, "bool takes no postscale factor");
  }
  memory.require(largest_block(reduction));
}

ChunkLimits chunk_limits(const Reduction& reduction, const SlotMemory& memory,
                         std::uint32_t shards) {
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : reduction.tensors) {
    bytes += tensor.elements * size_of(reduction.dtype);
  }
  const std::uint64_t share = (bytes + shards - 1) / shards;
  const std::uint64_t least = std::min(kMinChunkBytes, memory.chunk_bytes);
  ChunkLimits limits;
  limits.max_bytes = std::clamp(share, least, memory.chunk_bytes);
  limits.max_blocks = kMaxChunkBlocks;
  limits.max_segments = kMaxChunkSegments;
  return limits;
}

}  // namespace omniccl
