// A tensor where the framework left it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omniccl {

struct TensorView {
  const std::byte* input = nullptr;  // `elements` elements; may be null when there are none
  std::byte* output = nullptr;       // as large; equal to `input`, or not overlapping it
  std::uint64_t elements = 0;
  std::uint32_t block_elements = 256;  // the block of this tensor; at least 1
};

// The block of a tensor whose last dimension is `row_elements` (0 when unknown): whole rows of at
// least 16 elements for a row under 256, else 256 elements.
constexpr std::uint32_t default_block_elements(std::uint64_t row_elements) {
  constexpr std::uint32_t kDefault = 256;
  constexpr std::uint32_t kMin = 16;
  if (row_elements == 0 || row_elements >= kDefault) return kDefault;
  const auto row = static_cast<std::uint32_t>(row_elements);
  return row >= kMin ? row : (kMin + row - 1) / row * row;
}

}  // namespace omniccl
