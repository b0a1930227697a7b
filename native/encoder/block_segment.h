// How the blocks of a chunk are cut: a run of blocks of equal length, the last of which may be
// short.
#pragma once

#include <cstdint>

#include "base/span.h"
#include "encoder/block_bitmap.h"

namespace omniccl {

struct BlockSegment {
  std::uint32_t blocks = 0;          // at least 1
  std::uint32_t block_elements = 0;  // of each block but the last
  std::uint32_t last_elements = 0;   // of the last block: 1 to block_elements

  std::uint64_t elements() const {
    return std::uint64_t{blocks - 1} * block_elements + last_elements;
  }
  // Elements of the blocks [first, first + count) of this segment.
  std::uint64_t elements_of(std::uint32_t first, std::uint32_t count) const {
    return first + count == blocks ? std::uint64_t{count - 1} * block_elements + last_elements
                                   : std::uint64_t{count} * block_elements;
  }
  friend bool operator==(const BlockSegment& a, const BlockSegment& b) {
    return a.blocks == b.blocks && a.block_elements == b.block_elements &&
           a.last_elements == b.last_elements;
  }
  friend bool operator!=(const BlockSegment& a, const BlockSegment& b) { return !(a == b); }
};

// Walks runs of blocks of a chunk, in ascending order, over the chunk's segments: one pass in all.
class SegmentCursor {
 public:
  // Splits the blocks [first, first + count) at the segment borders and calls
  // `visit(segment_index, first_block_in_segment, block_count)` for each part; `segment_at(i)`
  // gives segment i. `first` must not be below that of the call before.
  template <typename SegmentAt, typename Visit>
  void visit(SegmentAt&& segment_at, std::size_t first, std::size_t count, Visit&& visit) {
    while (count != 0) {
      const BlockSegment& segment = segment_at(index_);
      if (first >= base_ + segment.blocks) {
        base_ += segment.blocks;
        ++index_;
        continue;
      }
      const std::size_t offset = first - base_;
      const std::size_t part = count < segment.blocks - offset ? count : segment.blocks - offset;
      visit(index_, static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(part));
      first += part;
      count -= part;
    }
  }

 private:
  std::size_t index_ = 0;
  std::size_t base_ = 0;
};

// Elements of the blocks that `bitmap` has.
inline std::uint64_t elements_in(ByteSpan bitmap, Span<const BlockSegment> segments) {
  std::size_t blocks = 0;
  for (const BlockSegment& segment : segments) blocks += segment.blocks;
  std::uint64_t elements = 0;
  SegmentCursor cursor;
  for_each_run(blocks, bitmap, [&](std::size_t first, std::size_t count) {
    cursor.visit([&](std::size_t i) -> const BlockSegment& { return segments[i]; }, first, count,
                 [&](std::size_t index, std::uint32_t offset, std::uint32_t part) {
                   elements += segments[index].elements_of(offset, part);
                 });
  });
  return elements;
}

}  // namespace omniccl
