// The AVX-512 intrinsics that kernels_avx512.cpp uses, in plain C++: SIMDe (Debian's libsimde-dev),
// and here what its releases up to 0.7 lack.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_X86_F16C_ENABLE_NATIVE_ALIASES  // release 0.7 misspells it
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef _MM_FROUND_NO_EXC
#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC
#endif

#ifndef _mm512_maskz_loadu_epi8
SIMDE_FUNCTION_ATTRIBUTES simde__m512i _mm512_maskz_loadu_epi8(std::uint64_t mask,
                                                               const void* address) {
  std::array<std::byte, 64> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    // As the instruction does, no byte is read that the mask leaves out.
    if ((mask >> i & 1) != 0) bytes[i] = static_cast<const std::byte*>(address)[i];
  }
  return simde_mm512_loadu_si512(bytes.data());
}
#endif

#ifndef _mm512_stream_si512
SIMDE_FUNCTION_ATTRIBUTES void _mm512_stream_si512(void* address, simde__m512i value) {
  std::memcpy(address, &value, sizeof value);
}
#endif

// SIMDe converts eight elements at a time.
#ifndef _mm512_maskz_cvtph_ps
SIMDE_FUNCTION_ATTRIBUTES simde__m512 _mm512_maskz_cvtph_ps(simde__mmask16 mask,
                                                            simde__m256i halves) {
  simde__m128i in[2];
  std::memcpy(in, &halves, sizeof halves);
  const simde__m256 out[2]{simde_mm256_cvtph_ps(in[0]), simde_mm256_cvtph_ps(in[1])};
  simde__m512 floats;
  std::memcpy(&floats, out, sizeof floats);
  return simde_mm512_maskz_mov_ps(mask, floats);
}
#endif

#ifndef _mm512_maskz_cvtps_ph
SIMDE_FUNCTION_ATTRIBUTES simde__m256i _mm512_maskz_cvtps_ph(simde__mmask16 mask,
                                                             simde__m512 floats, int rounding) {
  simde__m256 in[2];
  std::memcpy(in, &floats, sizeof floats);
  const simde__m128i out[2]{simde_mm256_cvtps_ph(in[0], rounding),
                            simde_mm256_cvtps_ph(in[1], rounding)};
  simde__m256i halves;
  std::memcpy(&halves, out, sizeof halves);
  return simde_mm256_maskz_mov_epi16(mask, halves);
}
#endif
