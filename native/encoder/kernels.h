// The inner loops, one table per instruction set. All tables give the same bits; "scalar" is the
// specification. A table is chosen once and called through for whole segments, never per element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/span.h"
#include "encoder/block_segment.h"

namespace omniccl {

// What happens to the elements of one block on their way into the sum and out of it.
struct Scaling {
  double prescale = 1.0;   // each contribution, then rounded to the dtype
  double postscale = 1.0;  // the sum, then rounded to the dtype
  bool add_zero = false;   // some rank's block was absent and counts as +0.0
};

// destination[i] = postscale * (sum over k of prescale * sources[k][i]), in the order of k, for
// `elements` elements; integers wrap around; fp16 is summed in float; a NaN becomes the canonical
// one; the sum of bools is their logical or, 0 or 1, which a positive factor does not change.
// `destination` may equal a source. `source_count` is at least 1.
using ReduceKernel = void (*)(std::byte* destination, const std::byte* const* sources,
                              std::size_t source_count, std::size_t elements,
                              const Scaling& scaling);

struct KernelTable {
  const char* name;

  // Sets bit first_bit + i of `bitmap` (whose bits are 0 there) for each block i of `segment` at
  // `data` that has a non-zero bit. Returns the number of bits set.
  std::size_t (*scan)(const std::byte* data, const BlockSegment& segment, std::size_t element_size,
                      MutableByteSpan bitmap, std::size_t first_bit);

  // Writes `size` zero bytes; large runs go around the cache.
  void (*fill_zero)(std::byte* destination, std::size_t size);

  // The kernel for that dtype. Throws Error(kInvalidArgument) for a value that is none.
  ReduceKernel (*reduce)(DataType dtype);
};

// The tables that this processor can run, the best one first, scalar last.
Span<const KernelTable* const> available_kernels();

// The table of that name, the best one for "auto". Throws Error(kPrecondition), naming what is
// available, for any other name.
const KernelTable& find_kernels(std::string_view name);

}  // namespace omniccl
