// The specification: plain C++, any processor.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "encoder/block_bitmap.h"
#include "encoder/kernel_tables.h"

namespace omniccl {
namespace {

using Vector = std::uint64_t;

inline Vector load_part(const std::byte* data, std::size_t size) {
  Vector value = 0;
  std::memcpy(&value, data, size);
  return value;
}

inline Vector load(const std::byte* data) { return load_part(data, sizeof(Vector)); }

inline Vector either(Vector a, Vector b) { return a | b; }

inline bool is_zero(Vector value) { return value == 0; }

constexpr std::size_t kHalves = 1;

inline void load_halves(float* out, const std::byte* in) {
  Float16 half;
  std::memcpy(&half, in, sizeof half);
  *out = half_to_float(half);
}

inline void store_halves(std::byte* out, const float* in) {
  const Float16 half = float_to_half(*in);
  std::memcpy(out, &half, sizeof half);
}

void fill_zero(std::byte* destination, std::size_t size) { std::memset(destination, 0, size); }

#include "encoder/kernels_body.inl"

}  // namespace

const KernelTable& scalar_kernels() {
  static constexpr KernelTable kTable = make_table("scalar");
  return kTable;
}

}  // namespace omniccl
