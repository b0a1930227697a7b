// AVX2 and F16C, compiled in a target region so that no other file gets these instructions.
#include "encoder/kernel_tables.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "encoder/block_bitmap.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

namespace omniccl {
namespace {

using Vector = __m256i;

inline Vector load(const std::byte* data) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
}

inline Vector load_part(const std::byte* data, std::size_t size) {
  std::array<std::byte, sizeof(Vector)> padded{};
  std::memcpy(padded.data(), data, size);
  return load(padded.data());
}

inline Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }

inline bool is_zero(Vector value) { return _mm256_testz_si256(value, value) != 0; }

constexpr std::size_t kHalves = 8;

inline void load_halves(float* out, const std::byte* in) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
  _mm256_storeu_ps(out, _mm256_cvtph_ps(halves));
}

inline void store_halves(std::byte* out, const float* in) {
  const __m128i halves =
      _mm256_cvtps_ph(_mm256_loadu_ps(in), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), halves);
}

inline void stream_zero(std::byte* destination) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(destination), _mm256_setzero_si256());
}

#include "encoder/fill_streaming.inl"
#include "encoder/kernels_body.inl"

}  // namespace

const KernelTable* avx2_kernels() {
  static constexpr KernelTable kTable = make_table("avx2");
  return &kTable;
}

}  // namespace omniccl

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

namespace omniccl {

const KernelTable* avx2_kernels() { return nullptr; }

}  // namespace omniccl

#endif
