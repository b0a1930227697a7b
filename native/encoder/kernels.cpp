#include "encoder/kernels.h"

#include <array>

#include "encoder/cpu_features.h"
#include "encoder/kernel_tables.h"

namespace omniccl {
namespace {

class Available {
 public:
  Available() {
    const CpuFeatures features = CpuFeatures::detect();
    if (features.avx512) add(avx512_kernels());
    if (features.avx2) add(avx2_kernels());
    if (features.neon) add(neon_kernels());
    add(&scalar_kernels());
  }
  Span<const KernelTable* const> tables() const { return {tables_.data(), count_}; }

 private:
  void add(const KernelTable* table) { tables_[count_++] = table; }

  std::array<const KernelTable*, 4> tables_{};
  std::size_t count_ = 0;
};

}  // namespace

Span<const KernelTable* const> available_kernels() {
  static const Available kAvailable;
  return kAvailable.tables();
}

const KernelTable& find_kernels(std::string_view name) {
  std::string names = "auto";
  for (const KernelTable* table : available_kernels()) {
    if (name == "auto" || name == table->name) return *table;
    names += std::string(", ") + table->name;
  }
  throw Error(ErrorKind::kPrecondition, "no kernels named '" + std::string(name) +
                                            "' on this processor; there are: " + names);
}

}  // namespace omniccl
