// AVX-512 (F, BW, DQ, VL), compiled in a target region so that no other file gets these
// instructions.
#include "encoder/kernel_tables.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "encoder/block_bitmap.h"

#if defined(OMNICCL_EMULATE_AVX512)  // by the tests, for processors without it
#include "support/avx512_emulation.h"
#elif defined(__clang__)
#include <immintrin.h>
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

namespace omniccl {
namespace {

using Vector = __m512i;

inline Vector load(const std::byte* data) { return _mm512_loadu_si512(data); }

inline Vector load_part(const std::byte* data, std::size_t size) {
  return _mm512_maskz_loadu_epi8((std::uint64_t{1} << size) - 1, data);
}

inline Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }

inline bool is_zero(Vector value) { return _mm512_test_epi64_mask(value, value) == 0; }

constexpr std::size_t kHalves = 16;
// The forms without a mask make GCC 12 warn of an uninitialised variable in its own header.
constexpr std::uint16_t kAllHalves = 0xFFFF;

inline void load_halves(float* out, const std::byte* in) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  _mm512_storeu_ps(out, _mm512_maskz_cvtph_ps(kAllHalves, halves));
}

inline void store_halves(std::byte* out, const float* in) {
  const __m256i halves = _mm512_maskz_cvtps_ph(kAllHalves, _mm512_loadu_ps(in),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), halves);
}

inline void stream_zero(std::byte* destination) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), _mm512_setzero_si512());
}

#include "encoder/fill_streaming.inl"
#include "encoder/kernels_body.inl"

}  // namespace

const KernelTable* avx512_kernels() {
  static constexpr KernelTable kTable = make_table("avx512");
  return &kTable;
}

}  // namespace omniccl

#if defined(OMNICCL_EMULATE_AVX512)
// no region
#elif defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

namespace omniccl {

const KernelTable* avx512_kernels() { return nullptr; }

}  // namespace omniccl

#endif
