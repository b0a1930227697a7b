// The specification: plain C++, any processor.
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "encoder/block_bitmap.h"
#include "encoder/kernel_tables.h"

namespace omniccl {
namespace {

inline bool is_zero(const std::byte* data, std::size_t size) {
  std::size_t offset = 0;
  for (; offset + sizeof(std::uint64_t) <= size; offset += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, data + offset, sizeof word);
    if (word != 0) return false;
  }
  for (; offset < size; ++offset) {
    if (data[offset] != std::byte{0}) return false;
  }
  return true;
}

inline void load_half(float* out, const std::byte* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Float16 half;
    std::memcpy(&half, in + i * sizeof half, sizeof half);
    out[i] = half_to_float(half);
  }
}

inline void store_half(std::byte* out, const float* in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Float16 half = float_to_half(in[i]);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

void fill_zero(std::byte* destination, std::size_t size) { std::memset(destination, 0, size); }

#include "encoder/kernels_body.inl"

}  // namespace

const KernelTable& scalar_kernels() {
  static constexpr KernelTable kTable = make_table("scalar");
  return kTable;
}

}  // namespace omniccl
