#include "encoder/block_reducer.h"

#include "encoder/block_bitmap.h"

namespace omniccl {

const std::byte* BlockReducer::Reader::take(std::size_t bytes) {
  if (offset == run->iov_len) {
    ++run;
    offset = 0;
  }
  const auto* data = static_cast<const std::byte*>(run->iov_base) + offset;
  offset += bytes;
  return data;
}

void BlockReducer::reduce(DataType dtype, Span<const Contribution> contributions,
                          Span<const BlockSegment> segments, ByteSpan union_bitmap, double prescale,
                          MutableByteSpan destination) {
  const ReduceKernel kernel = kernels_.reduce(dtype);
  const std::size_t element_size = size_of(dtype);
  readers_.clear();
  for (const Contribution& contribution : contributions) {
    readers_.push_back({contribution.runs.data(), 0});
  }
  std::byte* out = destination.data();
  std::size_t block = 0;
  for (const BlockSegment& segment : segments) {
    for (std::uint32_t i = 0; i < segment.blocks; ++i, ++block) {
      if (!test_bit(union_bitmap, block)) continue;
      const std::size_t elements = segment.elements_of(i, 1);
      sources_.clear();
      for (std::size_t rank = 0; rank < contributions.size(); ++rank) {
        if (!test_bit(contributions[rank].bitmap, block)) continue;
        sources_.push_back(readers_[rank].take(elements * element_size));
      }
      const Scaling scaling{prescale, 1.0, sources_.size() < contributions.size()};
      kernel(out, sources_.data(), sources_.size(), elements, scaling);
      out += elements * element_size;
    }
  }
}

}  // namespace omniccl
