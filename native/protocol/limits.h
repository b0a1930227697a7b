// Every maximum of the protocol, with its reason. What exceeds one is refused before anything is
// allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omniccl {

// Blocks of a chunk: its bitmaps stay at 1 KiB each.
inline constexpr std::uint32_t kMaxChunkBlocks = 8192;
// Segments of a chunk (tensors that it touches): the list stays at 3 KiB.
inline constexpr std::uint32_t kMaxChunkSegments = 256;
// Head of a frame: the two lines above, both bitmaps of a result, and room for a text.
inline constexpr std::uint32_t kMaxHeadBytes = 8 * 1024;
// Text of an abort message.
inline constexpr std::uint32_t kMaxAbortText = 2 * 1024;
// Elements of a block: bounds what one block may cost.
inline constexpr std::uint32_t kMaxBlockElements = 64 * 1024;
// Ranks of a communicator: bounds tables that are indexed by a rank from the wire.
inline constexpr std::uint32_t kMaxSize = 16 * 1024;

// Target size of a chunk in bytes. Smaller costs more headers and wake-ups, larger falls out of the
// second-level cache.
inline constexpr std::uint64_t kMaxChunkBytes = 128 * 1024;
// Below this a chunk is not split further to give every shard a share.
inline constexpr std::uint64_t kMinChunkBytes = 16 * 1024;
// Chunks in flight from one rank to one shard: bounds the shard's records of them.
inline constexpr std::uint32_t kMaxChunksInFlight = 256;
// Slot memory of a rank, per rank of the group, when none is configured: small enough for the
// last-level cache at common sizes (docs/adr/0007-slot-memory.md).
inline constexpr std::uint64_t kDefaultSlotMemoryPerPeer = 512 * 1024;

}  // namespace omniccl
