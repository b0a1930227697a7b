// One bit per block of a chunk, 1 = non-zero. Bit i is bit (i mod 8) of byte i / 8; the unused bits
// of the last byte are 0. These bytes are what travels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/span.h"

namespace omniccl {

constexpr std::size_t bitmap_bytes(std::size_t blocks) { return (blocks + 7) / 8; }

// The 64 bits from bit 64 * `word` on; bits beyond `bitmap` read as 0.
inline std::uint64_t bitmap_word(ByteSpan bitmap, std::size_t word) {
  const std::size_t offset = word * sizeof(std::uint64_t);
  if (offset >= bitmap.size()) return 0;
  std::uint64_t value = 0;  // little-endian hosts only, asserted in protocol/wire.h
  std::memcpy(&value, bitmap.data() + offset, std::min(sizeof value, bitmap.size() - offset));
  return value;
}

// Calls `visit(first, count)` for each maximal run of set bits among the first `blocks` bits of the
// bitmap whose 64-bit words `word_at(i)` gives.
template <typename WordAt, typename Visit>
void for_each_run_in_words(std::size_t blocks, WordAt&& word_at, Visit&& visit) {
  std::size_t run_first = 0;
  std::size_t run_count = 0;
  for (std::size_t word = 0; word * 64 < blocks; ++word) {
    const std::size_t base = word * 64;
    std::uint64_t bits = word_at(word);
    if (blocks - base < 64) bits &= (std::uint64_t{1} << (blocks - base)) - 1;
    while (bits != 0) {
      const auto start = static_cast<std::size_t>(__builtin_ctzll(bits));
      const std::uint64_t ones = ~(bits >> start);
      const std::size_t length =
          ones == 0 ? 64 - start : static_cast<std::size_t>(__builtin_ctzll(ones));
      if (run_count != 0 && run_first + run_count == base + start) {
        run_count += length;
      } else {
        if (run_count != 0) visit(run_first, run_count);
        run_first = base + start;
        run_count = length;
      }
      if (start + length == 64) break;
      bits &= ~std::uint64_t{0} << (start + length);
    }
  }
  if (run_count != 0) visit(run_first, run_count);
}

template <typename Visit>
void for_each_run(std::size_t blocks, ByteSpan bitmap, Visit&& visit) {
  for_each_run_in_words(
      blocks, [bitmap](std::size_t word) { return bitmap_word(bitmap, word); },
      static_cast<Visit&&>(visit));
}

// Number of set bits.
inline std::size_t count_set(ByteSpan bitmap) {
  std::size_t total = 0;
  for (std::size_t word = 0; word * sizeof(std::uint64_t) < bitmap.size(); ++word) {
    total += static_cast<std::size_t>(__builtin_popcountll(bitmap_word(bitmap, word)));
  }
  return total;
}

inline bool test_bit(ByteSpan bitmap, std::size_t block) {
  return ((std::to_integer<unsigned>(bitmap[block / 8]) >> (block % 8)) & 1U) != 0;
}

inline void set_bit(MutableByteSpan bitmap, std::size_t block) {
  bitmap[block / 8] |= std::byte{1} << static_cast<int>(block % 8);
}

// Whether the bits past `blocks` in the last byte are 0, as the format demands.
inline bool padding_is_clear(ByteSpan bitmap, std::size_t blocks) {
  return blocks % 8 == 0 || (std::to_integer<unsigned>(bitmap[blocks / 8]) >> (blocks % 8)) == 0;
}

}  // namespace omniccl
