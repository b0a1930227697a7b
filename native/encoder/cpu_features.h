// What the processor and the operating system allow.
#pragma once

namespace omniccl {

// False for the instructions of another architecture, and where the operating system does not save
// the registers.
struct CpuFeatures {
  bool avx2 = false;    // with F16C
  bool avx512 = false;  // F, BW, DQ and VL
  bool neon = false;

  static CpuFeatures detect();
};

}  // namespace omniccl
