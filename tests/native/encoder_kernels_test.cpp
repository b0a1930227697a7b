// Every kernel table against the scalar one, and that one against the plain definition.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "encoder/block_bitmap.h"
#include "encoder/kernels.h"
#include "support/reference.h"

namespace omniccl::testing {
namespace {

class Kernels : public ::testing::TestWithParam<const KernelTable*> {};

TEST_P(Kernels, SeeEveryNonzeroBit) {
  for (const std::size_t size : {1U, 2U, 8U, 31U, 32U, 33U, 100U, 128U, 129U, 1024U, 4100U}) {
    // An odd offset: tensors need not be aligned for vectors.
    std::vector<std::byte> buffer(size + 1);
    const BlockSegment segment{1, static_cast<std::uint32_t>(size),
                               static_cast<std::uint32_t>(size)};
    for (std::size_t position = 0; position <= size; ++position) {
      if (position < size) buffer[1 + position] = std::byte{0x80};
      std::vector<std::byte> bitmap(1);
      const std::size_t found = GetParam()->scan(buffer.data() + 1, segment, 1, bitmap, 3);
      EXPECT_EQ(found, position < size ? 1U : 0U) << "byte " << position << " of " << size;
      EXPECT_EQ(test_bit(bitmap, 3), position < size);
      if (position < size) buffer[1 + position] = std::byte{0};
    }
  }
}

TEST_P(Kernels, ScanBlocksWithAShortTail) {
  std::mt19937_64 random(2);
  for (const std::uint32_t last : {1U, 7U, 16U}) {
    const BlockSegment segment{40, 16, last};
    std::vector<float> values(segment.elements());
    std::vector<std::byte> expected(bitmap_bytes(40));
    for (std::size_t block = 0; block < 40; ++block) {
      if (random() % 3 != 0) continue;
      values[block * 16 + random() % (block == 39 ? last : 16)] = -0.0F;  // -0.0 is data
      set_bit(expected, block);
    }
    std::vector<std::byte> bitmap(expected.size());
    EXPECT_EQ(GetParam()->scan(reinterpret_cast<const std::byte*>(values.data()), segment,
                               sizeof(float), bitmap, 0),
              count_set(expected));
    EXPECT_EQ(bitmap, expected);
  }
}

TEST_P(Kernels, FillExactlyWhatTheyShould) {
  for (const std::size_t size : {0U, 1U, 31U, 4095U, 4096U, 10'007U}) {
    for (const std::size_t offset : {0U, 1U, 17U}) {
      std::vector<std::byte> buffer(size + 64, std::byte{0xAB});
      GetParam()->fill_zero(buffer.data() + offset, size);
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        const bool inside = i >= offset && i < offset + size;
        ASSERT_EQ(buffer[i], inside ? std::byte{0} : std::byte{0xAB}) << i;
      }
    }
  }
}

template <typename T>
void expect_reduce(const KernelTable& kernels, double prescale, double postscale,
                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const std::size_t elements : {1U, 5U, 63U, 64U, 65U, 255U, 1000U}) {
    for (const std::size_t count : {1U, 2U, 5U}) {
      std::vector<std::vector<T>> inputs;
      std::vector<const std::byte*> sources;
      for (std::size_t k = 0; k < count; ++k) {
        inputs.push_back(random_blocks<T>(elements, elements, 1.0, random));
        if constexpr (std::is_integral_v<T>) {
          if (postscale != 1.0) {
            for (T& value : inputs.back()) value /= 1000;  // the scaled sum has to fit
          }
        }
      }
      for (const auto& input : inputs) {
        sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
      }
      std::vector<T> result(elements);
      kernels.reduce(dtype_of<T>())(reinterpret_cast<std::byte*>(result.data()), sources.data(),
                                    count, elements, {prescale, postscale, false});
      EXPECT_TRUE(same_bits(result, reference_sum(inputs, prescale, postscale)))
          << kernels.name << ", " << count << " x " << elements;
    }
  }
}

TEST_P(Kernels, ReduceAsDefined) {
  expect_reduce<std::int32_t>(*GetParam(), 1.0, 1.0, 1);
  expect_reduce<std::int32_t>(*GetParam(), 1.0, 1.0 / 3, 2);
  expect_reduce<std::int64_t>(*GetParam(), 1.0, 0.5, 3);
  expect_reduce<Float16>(*GetParam(), 1.0, 1.0, 4);
  expect_reduce<Float16>(*GetParam(), 0.3, 1.0 / 3, 5);
  expect_reduce<float>(*GetParam(), 1.0, 1.0, 6);
  expect_reduce<float>(*GetParam(), 0.3, 1.0 / 3, 7);
  expect_reduce<double>(*GetParam(), 0.3, 1.0 / 3, 8);
}

TEST_P(Kernels, AbsentBlocksCountAsPositiveZero) {
  const float negative_zero = -0.0F;
  const auto* source = reinterpret_cast<const std::byte*>(&negative_zero);
  float result = 1;
  auto* destination = reinterpret_cast<std::byte*>(&result);
  GetParam()->reduce_float32(destination, &source, 1, 1, {1.0, 1.0, false});
  EXPECT_EQ(float_to_bits(result), 0x80000000U);
  GetParam()->reduce_float32(destination, &source, 1, 1, {1.0, 1.0, true});
  EXPECT_EQ(float_to_bits(result), 0U);
}

TEST_P(Kernels, IntegersThatDoNotFitAfterScalingBecomeTheLowest) {
  const std::int32_t value = 2'000'000'000;
  const auto* source = reinterpret_cast<const std::byte*>(&value);
  std::int32_t result = 0;
  GetParam()->reduce_int32(reinterpret_cast<std::byte*>(&result), &source, 1, 1, {1.0, 2.0, false});
  EXPECT_EQ(result, std::numeric_limits<std::int32_t>::min());
}

INSTANTIATE_TEST_SUITE_P(All, Kernels,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         [](const auto& table) { return std::string(table.param->name); });

TEST(Half, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float wide = half_to_float(half);
    if (std::isnan(wide)) {
      EXPECT_EQ(float_to_half(wide).bits & 0x7FFFU, 0x7E00U);
    } else {
      EXPECT_EQ(float_to_half(wide).bits, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F).bits, 0x3C00);  // tie, to even
  EXPECT_EQ(float_to_half(1.0F + 0x3p-11F).bits, 0x3C02);  // tie, to even
  EXPECT_EQ(float_to_half(65519.0F).bits, 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F).bits, 0x7C00);
  EXPECT_EQ(float_to_half(0x1p-25F).bits, 0);  // tie, to even
  EXPECT_EQ(float_to_half(0x1.8p-25F).bits, 1);
}

TEST(FindKernels, RefusesAnUnknownNameAndListsTheKnown) {
  EXPECT_STREQ(find_kernels("scalar").name, "scalar");
  EXPECT_EQ(&find_kernels("auto"), available_kernels()[0]);
  try {
    find_kernels("mmx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecondition);
    EXPECT_NE(std::string(error.what()).find("scalar"), std::string::npos);
  }
}

}  // namespace
}  // namespace omniccl::testing
