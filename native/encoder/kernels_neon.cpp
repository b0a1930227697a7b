// NEON (Advanced SIMD), which every aarch64 processor has: no target region is needed.
#include "encoder/kernel_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "encoder/block_bitmap.h"

namespace omniccl {
namespace {

using Vector = uint8x16_t;

inline Vector load(const std::byte* data) {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(data));
}

inline Vector load_part(const std::byte* data, std::size_t size) {
  std::array<std::byte, sizeof(Vector)> padded{};
  std::memcpy(padded.data(), data, size);
  return load(padded.data());
}

inline Vector either(Vector a, Vector b) { return vorrq_u8(a, b); }

inline bool is_zero(Vector value) { return vmaxvq_u32(vreinterpretq_u32_u8(value)) == 0; }

constexpr std::size_t kHalves = 4;

inline void load_halves(float* out, const std::byte* in) {
  const uint8x8_t halves = vld1_u8(reinterpret_cast<const std::uint8_t*>(in));
  vst1q_f32(out, vcvt_f32_f16(vreinterpret_f16_u8(halves)));
}

inline void store_halves(std::byte* out, const float* in) {
  const float16x4_t halves = vcvt_f16_f32(vld1q_f32(in));
  vst1_u8(reinterpret_cast<std::uint8_t*>(out), vreinterpret_u8_f16(halves));
}

// The library's memset clears whole cache lines (DC ZVA), without reading them first.
void fill_zero(std::byte* destination, std::size_t size) { std::memset(destination, 0, size); }

#include "encoder/kernels_body.inl"

}  // namespace

const KernelTable* neon_kernels() {
  static constexpr KernelTable kTable = make_table("neon");
  return &kTable;
}

}  // namespace omniccl

#else

namespace omniccl {

const KernelTable* neon_kernels() { return nullptr; }

}  // namespace omniccl

#endif
