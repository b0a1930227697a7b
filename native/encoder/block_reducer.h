// Sums the contributions of all ranks to one chunk, in rank order.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/span.h"
#include "encoder/block_segment.h"
#include "encoder/kernels.h"

namespace omniccl {

// One rank's part: which blocks it has, and those blocks one after the other.
struct Contribution {
  ByteSpan bitmap;
  Span<const iovec> runs;  // a block never straddles two runs
};

class BlockReducer {
 public:
  explicit BlockReducer(const KernelTable& kernels) : kernels_(kernels) {}

  // Writes the sums of the blocks in `union_bitmap`, one after the other, to `destination`, which
  // has just their size. contributions[r] is rank r's. An absent block counts as
  // +0.0. Each contribution is scaled by `prescale` first.
  void reduce(DataType dtype, Span<const Contribution> contributions,
              Span<const BlockSegment> segments, ByteSpan union_bitmap, double prescale,
              MutableByteSpan destination);

 private:
  // Reads a contribution's blocks in order.
  struct Reader {
    const iovec* run = nullptr;
    std::size_t offset = 0;

    const std::byte* take(std::size_t bytes);
  };

  const KernelTable& kernels_;
  std::vector<Reader> readers_;
  std::vector<const std::byte*> sources_;
};

}  // namespace omniccl
