// How a rank's slot memory is divided: the given quantity, from which chunk and window follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "protocol/limits.h"

namespace omniccl {

struct SlotMemory {
  std::uint64_t chunk_bytes = 0;   // most elements of a chunk, in bytes
  std::uint64_t window_bytes = 0;  // most payload in flight from one rank to one shard
  std::uint64_t ring_bytes = 0;    // of each peer's ring, and of the ring of results

  // Divides `total` bytes (0: the default for `size`) over `size` ranks: each of the size - 1 peers
  // and the results get one equal ring of window + chunk.
  static SlotMemory divide(std::uint64_t total, std::uint32_t size) {
    SlotMemory memory;
    memory.ring_bytes = (total == 0 ? kDefaultSlotMemoryPerPeer * size : total) / size;
    memory.chunk_bytes = std::min(kMaxChunkBytes, memory.ring_bytes / 2);
    memory.window_bytes = memory.ring_bytes - memory.chunk_bytes;
    return memory;
  }

  // Throws Error(kPrecondition), with the size that would do, when a block of `block_bytes` does
  // not fit into a chunk.
  void require(std::uint64_t block_bytes, std::uint32_t size) const {
    if (block_bytes <= chunk_bytes) return;
    std::string text = "a block of " + std::to_string(block_bytes) +
                       " bytes does not fit a chunk of " + std::to_string(chunk_bytes) + " bytes; ";
    text += block_bytes <= kMaxChunkBytes
                ? "set OMNICCL_SLOT_MEMORY to at least " + std::to_string(2 * size * block_bytes)
                : "set OMNICCL_BLOCK_SIZE to a smaller number of elements";
    throw Error(ErrorKind::kPrecondition, text);
  }
};

}  // namespace omniccl
