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
  switch (dtype) {
    case DataType::kInt32:
      return reduce_int32;
    case DataType::kInt64:
      return reduce_int64;
    case DataType::kFloat16:
      return reduce_float16;
    case DataType::kFloat32:
      return reduce_float32;
    case DataType::kFloat64:
      return reduce_float64;
  }
  throw Error(ErrorKind::kInvalidArgument, "unknown dtype");
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
