// Finds the non-zero blocks of a chunk and lists where they lie. Nothing is copied.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encoder/chunk_plan.h"
#include "encoder/kernels.h"

namespace omniccl {

// A chunk as one rank contributes it.
struct EncodedChunk {
  std::uint32_t index = 0;
  std::uint32_t blocks = 0;
  std::uint32_t nonzero_blocks = 0;
  std::vector<BlockSegment> segments;
  std::vector<std::byte> bitmap;
  std::vector<iovec> runs;  // the non-zero blocks in order; a block never straddles two runs
  std::uint64_t payload_bytes = 0;  // sum of the runs
};

// Scans `chunk` and fills `encoded`, whose storage is used again.
void encode(const Chunk& chunk, std::size_t element_size, const KernelTable& kernels,
            EncodedChunk& encoded);

}  // namespace omniccl
