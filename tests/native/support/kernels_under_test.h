// Every kernel table that the tests can run here.
#pragma once

#include <ostream>
#include <vector>

#include "encoder/kernels.h"

namespace omniccl {

// The AVX-512 kernels, emulated; nullptr where the compiler does not target x86-64.
const KernelTable* emulated_avx512_kernels();

// How GoogleTest shows a table.
inline void PrintTo(const KernelTable& table, std::ostream* out) { *out << table.name; }

namespace testing {

inline std::vector<KernelTable> kernels_under_test() {
  std::vector<KernelTable> tables;
  for (const KernelTable* table : available_kernels()) tables.push_back(*table);
  if (const KernelTable* emulated = emulated_avx512_kernels(); emulated != nullptr) {
    tables.push_back(*emulated);
    tables.back().name = "avx512_emulated";
  }
  return tables;
}

}  // namespace testing
}  // namespace omniccl
