// What the processor and the operating system allow.
#pragma once

namespace omniccl {

struct CpuFeatures {
  bool avx2 = false;  // AVX2, F16C and the operating system saves the registers

  static CpuFeatures detect();
};

}  // namespace omniccl
