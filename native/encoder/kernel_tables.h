// The tables as their own files define them. For kernels.cpp only; others use available_kernels().
#pragma once

#include "encoder/kernels.h"

namespace omniccl {

const KernelTable& scalar_kernels();

// nullptr where the compiler targets another architecture
const KernelTable* avx2_kernels();
const KernelTable* avx512_kernels();
const KernelTable* neon_kernels();

}  // namespace omniccl
