// Cuts the tensors of an operation into chunks. Every tensor begins a new block; a chunk is a run
// of consecutive blocks, over several small tensors or within a large one. The cut depends only on
// the element counts, block sizes and limits, so that every rank comes to the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/span.h"
#include "encoder/block_segment.h"
#include "encoder/tensor_view.h"

namespace omniccl {

struct ChunkLimits {
  std::uint64_t max_bytes = 128 * 1024;  // of elements; one block may exceed it
  std::uint32_t max_blocks = 8192;       // bounds the bitmaps of a frame
  std::uint32_t max_segments = 256;      // bounds the head of a frame
};

// A run of blocks of one tensor, in place.
struct ChunkSegment {
  BlockSegment shape;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

struct Chunk {
  std::uint32_t index = 0;
  std::uint32_t blocks = 0;
  std::vector<ChunkSegment> segments;
};

class ChunkPlan {
 public:
  // `tensors` is copied; the memory they point to is not touched.
  // Throws Error(kInvalidArgument) for a block size of 0 or more than 2^32 - 1 chunks.
  ChunkPlan(DataType dtype, Span<const TensorView> tensors, const ChunkLimits& limits);

  std::uint32_t chunk_count() const { return static_cast<std::uint32_t>(starts_.size()); }
  std::uint64_t block_count() const { return block_count_; }
  std::uint64_t byte_count() const { return byte_count_; }
  std::size_t element_size() const { return element_size_; }

  // Fills `chunk`, whose storage is used again, with chunk `index`.
  void get(std::uint32_t index, Chunk& chunk) const;

 private:
  struct Position {
    std::size_t tensor = 0;
    std::uint64_t element = 0;
  };
  // Appends to `segments` (when not null) what the chunk at `start` takes, and returns where the
  // next one starts.
  Position advance(Position start, std::uint32_t& blocks,
                   std::vector<ChunkSegment>* segments) const;

  std::vector<TensorView> tensors_;
  ChunkLimits limits_;
  std::size_t element_size_;
  std::uint64_t block_count_ = 0;
  std::uint64_t byte_count_ = 0;
  std::vector<Position> starts_;
};

}  // namespace omniccl
