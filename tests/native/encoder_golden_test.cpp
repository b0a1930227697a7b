// The bits themselves: the same hashes on every processor, compiler and kernel table.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "support/kernels_under_test.h"
#include "support/reference.h"

namespace omniccl::testing {
namespace {

// FNV-1a, 64 bits.
std::uint64_t hash_of(const std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3U;
  }
  return hash;
}

// An element from random bits, by operations that are exact or rounded alike everywhere: any bits
// in one of eight, numbers of like size else.
template <typename T>
T element_from(std::uint64_t bits) {
  if constexpr (kIsFloating<T>) {
    if (bits % 8 != 0) {
      const double mantissa = static_cast<double>(bits >> 11) - 0x1p52;
      const double value = std::ldexp(mantissa, -52 - static_cast<int>(bits % 5));
      return narrow<T>(static_cast<decltype(widen(T{}))>(value));
    }
  }
  T value;
  bits >>= 3;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
std::uint64_t hash_of_sum(const KernelTable& kernels, const Scaling& scaling) {
  constexpr std::size_t kElements = 10'007;
  constexpr std::size_t kRanks = 5;
  std::mt19937_64 random(1);  // the standard fixes its numbers, unlike those of distributions
  std::vector<std::vector<T>> inputs(kRanks);
  std::vector<const std::byte*> sources;
  for (std::vector<T>& input : inputs) {
    for (std::size_t i = 0; i < kElements; ++i) input.push_back(element_from<T>(random()));
    sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<std::byte> sum(kElements * sizeof(T));
  kernels.reduce(dtype_of<T>())(sum.data(), sources.data(), kRanks, kElements, scaling);
  return hash_of(sum);
}

class Golden : public ::testing::TestWithParam<KernelTable> {};

TEST_P(Golden, SumsHaveTheseBits) {
  struct Hashes {
    std::uint64_t plain;
    std::uint64_t scaled;
  };
  const std::map<std::string, Hashes> expected{
      {"int32", {0x93C0B874B7179395, 0xEB06634D429D2C79}},
      {"int64", {0xA86AFB5AFD7EDA07, 0x846CCC23B09D53C5}},
      {"float16", {0xB2047449E5E4A23E, 0xAC480EA3DE2FD16D}},
      {"float32", {0xEE59D3DE6D917E04, 0xA9E64ABADCE6623D}},
      {"float64", {0x005E9E407835313D, 0x6E365942F77C69BB}},
      {"int8", {0x44BF9EEAEA65CE02, 0x6DAEC903D2269D29}},
      {"uint8", {0x44BF9EEAEA65CE02, 0xAC57C9EF983F17E3}},
      {"int16", {0xBA60624B47D0F2F9, 0xC8DDA4D4ABD8D10C}},
      {"uint16", {0xBA60624B47D0F2F9, 0x68BA2AE1AE424A54}},
      {"bool", {0x782FC5BD9DFA876E, 0x782FC5BD9DFA876E}},
  };
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::Type;
    const std::string name = name_of(dtype_of<T>());
    const Scaling scaling{kIsFloating<T> ? 0.3 : 1.0, 1.0 / 5, true};
    EXPECT_EQ(hash_of_sum<T>(GetParam(), {1.0, 1.0, true}), expected.at(name).plain) << name;
    EXPECT_EQ(hash_of_sum<T>(GetParam(), scaling), expected.at(name).scaled) << name;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::ValuesIn(kernels_under_test()),
                         [](const auto& table) { return std::string(table.param.name); });

}  // namespace
}  // namespace omniccl::testing
