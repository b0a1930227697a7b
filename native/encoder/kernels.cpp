#include "encoder/kernels.h"

#include <array>
#include <type_traits>

#include "encoder/cpu_features.h"
#include "encoder/kernel_tables.h"

namespace omniccl {
namespace {

class Available {
 public:
  Available() {
    const CpuFeatures features = CpuFeatures::detect();
    if (const KernelTable* avx2 = avx2_kernels(); avx2 != nullptr && features.avx2) add(*avx2);
    add(scalar_kernels());
  }
  Span<const KernelTable* const> tables() const { return {tables_.data(), count_}; }

 private:
  void add(const KernelTable& table) { tables_[count_++] = &table; }

  std::array<const KernelTable*, 2> tables_{};
  std::size_t count_ = 0;
};

}  // namespace

ReduceKernel KernelTable::reduce(DataType dtype) const {
  return dispatch(dtype, [this](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, std::int32_t>) return reduce_int32;
    if constexpr (std::is_same_v<T, std::int64_t>) return reduce_int64;
    if constexpr (std::is_same_v<T, Float16>) return reduce_float16;
    if constexpr (std::is_same_v<T, float>) return reduce_float32;
    if constexpr (std::is_same_v<T, double>) return reduce_float64;
  });
}

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
