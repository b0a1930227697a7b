// Element types and the one dispatch over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  kInt8 = 6,
  kUint8 = 7,
  kInt16 = 8,
  kUint16 = 9,
  kBool = 10,
};

// All of them, in the order of their wire values, which have no gaps.
constexpr std::array kDataTypes{
    DataType::kInt32, DataType::kInt64, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64,
    DataType::kInt8,  DataType::kUint8, DataType::kInt16,   DataType::kUint16,  DataType::kBool,
};

// IEEE 754 binary16 as its bits; arithmetic happens in float.
struct Float16 {
  std::uint16_t bits;
};

// A truth value as its byte: 0 is false, any other value true. Unlike bool it may be read from
// bytes that a stranger wrote.
struct Bool {
  std::uint8_t byte;
};

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls `visitor` with the TypeTag of `dtype`'s element type. The only switch over dtypes.
// Throws Error(kInvalidArgument) for a value that is none of DataType's.
template <typename Visitor>
constexpr decltype(auto) dispatch(DataType dtype, Visitor&& visitor) {
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
    case DataType::kInt8:
      return visitor(TypeTag<std::int8_t>{});
    case DataType::kUint8:
      return visitor(TypeTag<std::uint8_t>{});
    case DataType::kInt16:
      return visitor(TypeTag<std::int16_t>{});
    case DataType::kUint16:
      return visitor(TypeTag<std::uint16_t>{});
    case DataType::kBool:
      return visitor(TypeTag<Bool>{});
  }
  throw Error(ErrorKind::kInvalidArgument, "unknown dtype");
}

// Size of one element in bytes.
inline std::size_t size_of(DataType dtype) {
  return dispatch(dtype, [](auto tag) { return sizeof(typename decltype(tag)::Type); });
}

// Whether `dtype` is an integer or bool. These take no prescale factor.
inline bool is_integer(DataType dtype) {
  return dispatch(dtype, [](auto tag) {
    using T = typename decltype(tag)::Type;
    return std::is_integral_v<T> || std::is_same_v<T, Bool>;
  });
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
    if constexpr (std::is_same_v<T, std::int8_t>) return "int8";
    if constexpr (std::is_same_v<T, std::uint8_t>) return "uint8";
    if constexpr (std::is_same_v<T, std::int16_t>) return "int16";
    if constexpr (std::is_same_v<T, std::uint16_t>) return "uint16";
    if constexpr (std::is_same_v<T, Bool>) return "bool";
  });
}

// The dtype of that name. Throws Error(kInvalidArgument) when there is none.
inline DataType dtype_named(std::string_view name) {
  for (const DataType dtype : kDataTypes) {
    if (name == name_of(dtype)) return dtype;
  }
  throw Error(ErrorKind::kInvalidArgument, "no dtype " + std::string(name));
}

// The dtype with wire value `value`, if there is one.
inline std::optional<DataType> dtype_from_wire(std::uint8_t value) {
  if (value < static_cast<std::uint8_t>(kDataTypes.front()) ||
      value > static_cast<std::uint8_t>(kDataTypes.back())) {
    return std::nullopt;
  }
  return static_cast<DataType>(value);
}

}  // namespace omniccl
