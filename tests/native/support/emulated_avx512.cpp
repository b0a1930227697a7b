// kernels_avx512.cpp once more, against an emulation of its intrinsics that any x86-64 processor
// can run.
#define OMNICCL_EMULATE_AVX512
#define avx512_kernels emulated_avx512_kernels
#include "encoder/kernels_avx512.cpp"  // NOLINT(bugprone-suspicious-include)
