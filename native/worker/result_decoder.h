// Writes the result of a chunk to the output tensors: blocks that arrive, this rank's own blocks
// that no other rank has, zeros for the rest.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/span.h"
#include "encoder/chunk_plan.h"
#include "encoder/kernels.h"

namespace omniccl {

// What every chunk of an operation has in common.
struct DecodeRules {
  DataType dtype = DataType::kFloat32;
  double prescale = 1.0;
  double postscale = 1.0;
  std::uint32_t size = 1;  // ranks
  const KernelTable* kernels = nullptr;
};

// Appends where the blocks that arrive for `chunk` go: those in `united` and not in `exclusive`.
void list_destinations(const Chunk& chunk, ByteSpan united, ByteSpan exclusive,
                       std::size_t element_size, std::vector<iovec>& destinations);

// Finishes `chunk` after the blocks that arrive are in the outputs: scales them, and writes all
// other blocks.
void finish_result(const Chunk& chunk, ByteSpan united, ByteSpan exclusive,
                   const DecodeRules& rules);

// The same for a result in this process: `sums` holds the blocks of `united` in order.
void write_result(const Chunk& chunk, ByteSpan united, ByteSpan sums, const DecodeRules& rules);

}  // namespace omniccl
