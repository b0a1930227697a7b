// IEEE 754 binary16 <-> binary32, round to nearest even. The reference that every kernel must
// equal.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace omniccl {

inline float bits_to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t float_to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float half_to_float(Float16 half) {
  const std::uint32_t sign = (half.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (half.bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = half.bits & 0x3FFU;
  if (exponent == 0x1F) return bits_to_float(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return bits_to_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero or subnormal: mantissa * 2^-24 is exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return bits_to_float(sign | float_to_bits(magnitude));
}

inline Float16 float_to_half(float value) {
  const std::uint32_t bits = float_to_bits(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};   // NaN
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // >= 65520
  if (magnitude < 0x38800000U) {
    // Subnormal or zero in half: let the float adder round at bit 2^-24.
    const float shifted = bits_to_float(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (float_to_bits(shifted) - 0x3F000000U))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + odd;
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

}  // namespace omniccl
