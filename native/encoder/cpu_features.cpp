#include "encoder/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace omniccl {
#if defined(__x86_64__)
namespace {

// __builtin_cpu_supports("f16c") is not known to every compiler that has the instructions.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

CpuFeatures CpuFeatures::detect() {
  CpuFeatures features;
#if defined(__x86_64__)
  // GCC and Clang check XGETBV too: the YMM state for AVX2, the ZMM state for AVX-512.
  features.avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
  features.avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#elif defined(__aarch64__)
  features.neon = true;  // part of the architecture
#endif
  return features;
}

}  // namespace omniccl
