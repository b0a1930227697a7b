// How a shard's slot memory is divided: the given quantity, from which chunk and window follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "protocol/limits.h"

namespace omniccl {

struct SlotMemory {
  std::uint32_t rings = 1;
  std::uint64_t chunk_bytes = 0;   // most elements of a chunk, in bytes
  std::uint64_t window_bytes = 0;  // most payload in flight from one rank to one shard
  std::uint64_t ring_bytes = 0;    // of each remote rank's ring, and of the ring of results

  std::uint64_t total_bytes() const { return rings * ring_bytes; }

  // For a shard that lives in one of the `size` ranks: a ring for each of the others and one for
  // the results. `total` is in bytes, 0 for the default.
  static SlotMemory embedded(std::uint64_t total, std::uint32_t size) {
    return divide(total, size);
  }
  // For a shard in a process of its own, which all ranks reach from outside.
  static SlotMemory dedicated(std::uint64_t total, std::uint32_t size) {
    return divide(total, size + 1);
  }

  // Throws Error(kPrecondition), with the size that would do, when a block of `block_bytes` does
  // not fit into a chunk.
  void require(std::uint64_t block_bytes) const {
    if (block_bytes <= chunk_bytes) return;
    std::string text = "a block of " + std::to_string(block_bytes) +
                       " bytes does not fit a chunk of " + std::to_string(chunk_bytes) + " bytes; ";
    text += block_bytes <= kMaxChunkBytes
                ? "set OMNICCL_SLOT_MEMORY to at least " + std::to_string(2 * rings * block_bytes)
                : "set OMNICCL_BLOCK_SIZE to a smaller number of elements";
    throw Error(ErrorKind::kPrecondition, text);
  }

 private:
  static SlotMemory divide(std::uint64_t total, std::uint32_t rings) {
    SlotMemory memory;
    memory.rings = rings;
    memory.ring_bytes = (total == 0 ? kDefaultSlotMemoryPerPeer * rings : total) / rings;
    memory.chunk_bytes = std::min(kMaxChunkBytes, memory.ring_bytes / 2);
    memory.window_bytes = memory.ring_bytes - memory.chunk_bytes;
    return memory;
  }
};

}  // namespace omniccl
