// The allreduce as the documents define it, in the plainest code: element by element, rank by rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"

namespace omniccl::testing {

template <typename T>
constexpr DataType dtype_of() {
  if constexpr (std::is_same_v<T, std::int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<T, std::int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DataType::kUint16;
  if constexpr (std::is_same_v<T, Bool>) return DataType::kBool;
}

// Calls `visit` with the TypeTag of every dtype.
template <typename Visit>
void for_each_dtype(Visit&& visit) {
  for (const DataType dtype : kDataTypes) dispatch(dtype, visit);
}

template <typename T>
constexpr bool kIsFloating = std::is_floating_point_v<T> || std::is_same_v<T, Float16>;

inline float widen(Float16 value) { return half_to_float(value); }
template <typename T>
T widen(T value) {
  return value;
}
template <typename T, typename Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return float_to_half(value);
  } else {
    return value;
  }
}

// What x86 makes of the C cast: the lowest value for what does not fit.
template <typename Integer>
Integer truncate(double value) {
  const double limit = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  return -limit <= value && value < limit ? static_cast<Integer>(value)
                                          : std::numeric_limits<Integer>::min();
}

template <typename T>
T scale(T value, double factor) {
  if (factor == 1.0) return value;
  if constexpr (std::is_same_v<T, Bool>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return truncate<std::int64_t>(factor * static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(truncate<std::int32_t>(factor * value));
  } else {
    using Wide = decltype(widen(value));
    return narrow<T>(static_cast<Wide>(static_cast<Wide>(factor) * widen(value)));
  }
}

template <typename T>
T canonical(T value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return std::isnan(widen(value)) ? Float16{0x7E00} : value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return value;
  }
}

// inputs[rank][element]; a rank whose block is all zero bits counts as +0.0, which is what adding
// its +0.0 elements does.
template <typename T>
std::vector<T> reference_sum(const std::vector<std::vector<T>>& inputs, double prescale = 1.0,
                             double postscale = 1.0) {
  std::vector<T> result(inputs[0].size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if constexpr (std::is_same_v<T, Bool>) {
      for (const auto& input : inputs) {
        if (input[i].byte != 0) result[i].byte = 1;
      }
    } else if constexpr (std::is_integral_v<T>) {
      std::uint64_t sum = 0;  // its low bits are the sum that wraps around
      for (const auto& input : inputs) sum += static_cast<std::uint64_t>(input[i]);
      result[i] = scale(static_cast<T>(sum), postscale);
    } else {
      auto sum = widen(scale(inputs[0][i], prescale));
      for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
        sum += widen(scale(inputs[rank][i], prescale));
      }
      result[i] = canonical(scale(narrow<T>(sum), postscale));
    }
  }
  return result;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Random values, special ones among them; `density` of the blocks of `block` elements are non-zero.
template <typename T>
std::vector<T> random_blocks(std::size_t elements, std::size_t block, double density,
                             std::mt19937_64& random) {
  std::vector<T> values(elements);  // zero bits
  std::bernoulli_distribution nonzero(density);
  for (std::size_t first = 0; first < elements; first += block) {
    if (!nonzero(random)) continue;
    for (std::size_t i = first; i < std::min(elements, first + block); ++i) {
      const std::uint64_t bits = random();
      if constexpr (std::is_integral_v<T>) {
        values[i] = static_cast<T>(bits);
      } else if constexpr (std::is_same_v<T, Bool>) {
        values[i].byte = static_cast<std::uint8_t>(bits % 2 == 0 ? 0 : bits >> 8);
      } else if (bits % 64 == 0) {
        std::memcpy(&values[i], &bits, sizeof(T));  // any bits: NaN, denormal, huge
      } else if (bits % 64 == 1) {
        values[i] = narrow<T>(static_cast<decltype(widen(T{}))>(-0.0));
      } else if (bits % 64 == 2) {
        using Wide = decltype(widen(T{}));
        values[i] = narrow<T>(std::numeric_limits<Wide>::infinity() * (bits % 128 < 64 ? 1 : -1));
      } else {
        const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
        values[i] = narrow<T>(static_cast<decltype(widen(T{}))>(unit * 2 - 1));
      }
    }
  }
  return values;
}

}  // namespace omniccl::testing
