#include "encoder/block_encoder.h"

#include "encoder/block_bitmap.h"

namespace omniccl {

void encode(const Chunk& chunk, std::size_t element_size, const KernelTable& kernels,
            EncodedChunk& encoded) {
  encoded.index = chunk.index;
  encoded.blocks = chunk.blocks;
  encoded.segments.clear();
  encoded.runs.clear();
  encoded.payload_bytes = 0;
  encoded.bitmap.assign(bitmap_bytes(chunk.blocks), std::byte{0});

  std::size_t nonzero = 0;
  std::size_t first_bit = 0;
  for (const ChunkSegment& segment : chunk.segments) {
    nonzero += kernels.scan(segment.input, segment.shape, element_size, encoded.bitmap, first_bit);
    first_bit += segment.shape.blocks;
    encoded.segments.push_back(segment.shape);
  }
  encoded.nonzero_blocks = static_cast<std::uint32_t>(nonzero);

  SegmentCursor cursor;
  const auto segment_at = [&](std::size_t i) -> const BlockSegment& { return encoded.segments[i]; };
  for_each_run(chunk.blocks, encoded.bitmap, [&](std::size_t first, std::size_t count) {
    cursor.visit(
        segment_at, first, count,
        [&](std::size_t index, std::uint32_t offset, std::uint32_t blocks) {
          const ChunkSegment& segment = chunk.segments[index];
          const std::byte* begin =
              segment.input + std::size_t{offset} * segment.shape.block_elements * element_size;
          const std::size_t bytes = segment.shape.elements_of(offset, blocks) * element_size;
          // iovec has no const; the runs are only read.
          encoded.runs.push_back({const_cast<std::byte*>(begin), bytes});
          encoded.payload_bytes += bytes;
        });
  });
}

}  // namespace omniccl
