#include "encoder/cpu_features.h"

namespace omniccl {

CpuFeatures CpuFeatures::detect() {
  CpuFeatures features;
#if defined(__x86_64__)
  // GCC and Clang check XGETBV too: false where the system does not save the registers.
  features.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
#endif
  return features;
}

}  // namespace omniccl
