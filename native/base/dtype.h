// Element types and the one dispatch over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/error.h"

namespace omniccl {

// The values are wire values (docs/protocol.md, "dtype"); never renumber.
enum class DataType : std::uint8_t {
  kInt32 = 1,
  kInt64 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kFloat64 = 5,
};

// IEEE 754 binary16 as its bits; arithmetic happens in float.
struct Float16 {
  std::uint16_t bits;
};

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls `visitor` with the TypeTag of `dtype`'s element type. The only switch over dtypes.
// Throws Error(kInvalidArgument) for a value that is none of DataType's.
template <typename Visitor>
decltype(auto) dispatch(DataType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DataType::kInt32:
      return visitor(TypeTag<std::int32_t>{});
    case DataType::kInt64:
      return visitor(TypeTag<std::int64_t>{});
    case DataType::kFloat16:
      return visitor(TypeTag<Float16>{});
    case DataType::kFloat32:
      return visitor(TypeTag<float>{});
    case DataType::kFloat64:
      return visitor(TypeTag<double>{});
  }
  throw Error(ErrorKind::kInvalidArgument, "unknown dtype");
}

// Size of one element in bytes.
inline std::size_t size_of(DataType dtype) {
  return dispatch(dtype, [](auto tag) { return sizeof(typename decltype(tag)::Type); });
}

// "float32", for messages.
inline const char* name_of(DataType dtype) {
  return dispatch(dtype, [](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, std::int32_t>) return "int32";
    if constexpr (std::is_same_v<T, std::int64_t>) return "int64";
    if constexpr (std::is_same_v<T, Float16>) return "float16";
    if constexpr (std::is_same_v<T, float>) return "float32";
    if constexpr (std::is_same_v<T, double>) return "float64";
  });
}

// The dtype with wire value `value`, if there is one.
inline std::optional<DataType> dtype_from_wire(std::uint8_t value) {
  if (value < static_cast<std::uint8_t>(DataType::kInt32) ||
      value > static_cast<std::uint8_t>(DataType::kFloat64)) {
    return std::nullopt;
  }
  return static_cast<DataType>(value);
}

}  // namespace omniccl
