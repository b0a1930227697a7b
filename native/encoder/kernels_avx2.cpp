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

inline __m256i load(const std::byte* data) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
}

inline bool is_zero(const std::byte* data, std::size_t size) {
  constexpr std::size_t kVector = sizeof(__m256i);
  constexpr std::size_t kGroup =
      4 * kVector;  // one test a group: cheap, and dense blocks end early
  if (size < kVector) {
    std::array<std::byte, kVector> padded{};
    std::memcpy(padded.data(), data, size);
    const __m256i value = load(padded.data());
    return _mm256_testz_si256(value, value) != 0;
  }
  std::size_t offset = 0;
  for (; offset + kGroup <= size; offset += kGroup) {
    const std::byte* group = data + offset;
    const __m256i any =
        _mm256_or_si256(_mm256_or_si256(load(group), load(group + kVector)),
                        _mm256_or_si256(load(group + 2 * kVector), load(group + 3 * kVector)));
    if (_mm256_testz_si256(any, any) == 0) return false;
  }
  for (; offset < size; offset += kVector) {
    // The last vector may overlap the one before it.
    const __m256i value = load(data + std::min(offset, size - kVector));
    if (_mm256_testz_si256(value, value) == 0) return false;
  }
  return true;
}

inline void load_half(float* out, const std::byte* in, std::size_t count) {
  const std::size_t vectors = count - count % 8;
  for (std::size_t i = 0; i < vectors; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * 2));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (std::size_t i = vectors; i < count; ++i) {
    Float16 half;
    std::memcpy(&half, in + i * sizeof half, sizeof half);
    out[i] = half_to_float(half);
  }
}

inline void store_half(std::byte* out, const float* in, std::size_t count) {
  const std::size_t vectors = count - count % 8;
  for (std::size_t i = 0; i < vectors; i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * 2), halves);
  }
  for (std::size_t i = vectors; i < count; ++i) {
    const Float16 half = float_to_half(in[i]);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

void fill_zero(std::byte* destination, std::size_t size) {
  // Below this, the lines are likely to be wanted in the cache and a fence would cost more.
  constexpr std::size_t kStreamFrom = 4096;
  constexpr std::size_t kVector = sizeof(__m256i);
  if (size < kStreamFrom) {
    std::memset(destination, 0, size);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(destination);
  const std::size_t head = (kVector - address % kVector) % kVector;
  std::memset(destination, 0, head);
  std::byte* const aligned = destination + head;
  const std::size_t body = (size - head) / kVector * kVector;
  for (std::size_t offset = 0; offset < body; offset += kVector) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(aligned + offset), _mm256_setzero_si256());
  }
  std::memset(aligned + body, 0, size - head - body);
  _mm_sfence();  // streamed stores must be visible before whatever tells another thread
}

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
