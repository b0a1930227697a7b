// Every kernel table against the plain definition, and so against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>

#include "encoder/block_bitmap.h"
#include "encoder/kernels.h"
#include "support/kernels_under_test.h"
#include "support/reference.h"

namespace omniccl::testing {
namespace {

class Kernels : public ::testing::TestWithParam<KernelTable> {};

TEST_P(Kernels, SeeEveryNonzeroBit) {
  for (const std::size_t size :
       {1U,  2U,  7U,   8U,   9U,   15U,  16U,  17U,  31U,  32U,  33U,   63U,
        64U, 65U, 100U, 127U, 128U, 129U, 255U, 256U, 257U, 511U, 1024U, 4100U}) {
    // An odd offset: tensors need not be aligned for vectors.
    std::vector<std::byte> buffer(size + 1);
    const BlockSegment segment{1, static_cast<std::uint32_t>(size),
                               static_cast<std::uint32_t>(size)};
    for (std::size_t position = 0; position <= size; ++position) {
      if (position < size) buffer[1 + position] = std::byte{1} << static_cast<int>(position % 8);
      std::vector<std::byte> bitmap(1);
      const std::size_t found = GetParam().scan(buffer.data() + 1, segment, 1, bitmap, 3);
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
    EXPECT_EQ(GetParam().scan(reinterpret_cast<const std::byte*>(values.data()), segment,
                              sizeof(float), bitmap, 0),
              count_set(expected));
    EXPECT_EQ(bitmap, expected);
  }
}

TEST_P(Kernels, FillExactlyWhatTheyShould) {
  for (const std::size_t size : {0U, 1U, 31U, 4095U, 4096U, 10'007U}) {
    for (const std::size_t offset : {0U, 1U, 17U}) {
      std::vector<std::byte> buffer(size + 64, std::byte{0xAB});
      GetParam().fill_zero(buffer.data() + offset, size);
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        const bool inside = i >= offset && i < offset + size;
        ASSERT_EQ(buffer[i], inside ? std::byte{0} : std::byte{0xAB}) << i;
      }
    }
  }
}

// What a table's kernel makes of `inputs`, which lie at odd addresses as tensors may.
template <typename T>
std::vector<T> reduce(const KernelTable& kernels, const std::vector<std::vector<T>>& inputs,
                      const Scaling& scaling) {
  const std::size_t elements = inputs[0].size();
  std::vector<std::vector<std::byte>> buffers;
  std::vector<const std::byte*> sources;
  for (const std::vector<T>& input : inputs) {
    buffers.emplace_back(1 + elements * sizeof(T));
    std::memcpy(buffers.back().data() + 1, input.data(), elements * sizeof(T));
    sources.push_back(buffers.back().data() + 1);
  }
  // The destination may be a source.
  std::byte* const destination = buffers.back().data() + 1;
  kernels.reduce(dtype_of<T>())(destination, sources.data(), sources.size(), elements, scaling);
  std::vector<T> result(elements);
  std::memcpy(result.data(), destination, elements * sizeof(T));
  return result;
}

template <typename T>
void expect_reference(const KernelTable& kernels, const std::vector<std::vector<T>>& inputs,
                      double prescale, double postscale) {
  EXPECT_TRUE(same_bits(reduce(kernels, inputs, {prescale, postscale, false}),
                        reference_sum(inputs, prescale, postscale)))
      << kernels.name << ", " << name_of(dtype_of<T>()) << ", " << inputs.size() << " x "
      << inputs[0].size() << ", factors " << prescale << " and " << postscale;
}

TEST_P(Kernels, ReduceAsDefined) {
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::mt19937_64 random(size_of(dtype_of<T>()));
    for (const std::size_t elements : {1U, 3U, 15U, 16U, 17U, 63U, 64U, 65U, 127U, 256U, 1000U}) {
      for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
        std::vector<std::vector<T>> inputs;
        for (std::size_t k = 0; k < ranks; ++k) {
          inputs.push_back(random_blocks<T>(elements, elements, 1.0, random));
        }
        expect_reference(GetParam(), inputs, 1.0, 1.0);
        expect_reference(GetParam(), inputs, 1.0, 1.0 / static_cast<double>(ranks));
        expect_reference(GetParam(), inputs, 1.0, 1e5);
        if constexpr (kIsFloating<T>) expect_reference(GetParam(), inputs, 0.3, 1.0 / 3);
      }
    }
  });
}

// Every half, and through the factors every way to round one: ties, subnormals, overflow.
TEST_P(Kernels, ConvertEveryHalf) {
  std::vector<Float16> all;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    all.push_back({static_cast<std::uint16_t>(bits)});
  }
  std::vector<Float16> shuffled = all;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(1));
  for (const double factor : {1.0, 0.5, 0.75, 1.0 + 0x1p-11, 0x1p-10, 0x1.8p-14, 3.0, 0x1p15}) {
    expect_reference<Float16>(GetParam(), {all}, factor, 1.0);
    expect_reference<Float16>(GetParam(), {all, shuffled}, 1.0, factor);
  }
}

template <typename T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T value :
       {T{0}, Limits::denorm_min(), Limits::min() / 2, Limits::min(), Limits::epsilon(), T{1},
        Limits::max(), Limits::infinity(), Limits::quiet_NaN(), Limits::signaling_NaN()}) {
    values.push_back(value);
    values.push_back(std::copysign(value, T{-1}));
  }
  return values;
}

template <typename T>
void expect_special_values(const KernelTable& kernels) {
  const std::vector<T> values = special_values<T>();
  std::vector<std::vector<T>> inputs(2);
  for (const T a : values) {
    for (const T b : values) {
      inputs[0].push_back(a);
      inputs[1].push_back(b);
    }
  }
  for (const double factor : {1.0, 0.5, 2.0}) {
    expect_reference(kernels, inputs, factor, 1.0);
    expect_reference(kernels, inputs, 1.0, factor);
  }
}

TEST_P(Kernels, AddSpecialValues) {
  expect_special_values<float>(GetParam());
  expect_special_values<double>(GetParam());
}

TEST_P(Kernels, AbsentBlocksCountAsPositiveZero) {
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsFloating<T>) {
      const T negative_zero = narrow<T>(static_cast<decltype(widen(T{}))>(-0.0));
      for (const std::size_t elements : {1U, 64U, 100U}) {
        const std::vector<T> input(elements, negative_zero);
        EXPECT_TRUE(same_bits(reduce<T>(GetParam(), {input}, {1.0, 1.0, false}), input));
        EXPECT_TRUE(
            same_bits(reduce<T>(GetParam(), {input}, {1.0, 1.0, true}), std::vector<T>(elements)));
      }
    }
  });
}

// `sum * factor` as `expected`, in a whole tile and in a single element.
template <typename T>
void expect_scaled(const KernelTable& kernels, T sum, double factor, T expected) {
  for (const std::size_t elements : {1U, 64U}) {
    const std::vector<std::vector<T>> inputs{std::vector<T>(elements, sum)};
    EXPECT_EQ(reduce(kernels, inputs, {1.0, factor, false}), std::vector<T>(elements, expected))
        << kernels.name << ", " << name_of(dtype_of<T>()) << ' ' << +sum << " * " << factor;
  }
}

TEST_P(Kernels, ScaleIntegersAsHorovodDoesOnX86) {
  expect_scaled<std::int32_t>(GetParam(), -7, 0.5, -3);
  expect_scaled<std::int32_t>(GetParam(), 2'000'000'000, 2.0, INT32_MIN);
  expect_scaled<std::int32_t>(GetParam(), -2'000'000'000, 2.0, INT32_MIN);
  expect_scaled<std::int64_t>(GetParam(), INT64_MAX, 1.5, INT64_MIN);
  expect_scaled<std::uint8_t>(GetParam(), 255, 1.0 / 3, 85);
  expect_scaled<std::uint8_t>(GetParam(), 200, 2.0, 400 - 256);
  expect_scaled<std::uint8_t>(GetParam(), 255, 1e8, 0);  // the low bits of the lowest int32
  expect_scaled<std::int8_t>(GetParam(), -7, 0.5, -3);
  expect_scaled<std::int8_t>(GetParam(), 100, 2.0, 200 - 256);
  expect_scaled<std::int16_t>(GetParam(), -30'000, 2.0, 65'536 - 60'000);
  expect_scaled<std::int16_t>(GetParam(), 30'000, 1e300, 0);
  expect_scaled<std::uint16_t>(GetParam(), 65'535, 0.5, 32'767);
  expect_scaled<std::uint16_t>(GetParam(), 65'535, 2.0, 65'534);
}

TEST_P(Kernels, WrapIntegersAround) {
  EXPECT_EQ(reduce<std::int8_t>(GetParam(), {{100}, {100}}, {}), (std::vector<std::int8_t>{-56}));
  EXPECT_EQ(reduce<std::uint16_t>(GetParam(), {{65'535}, {2}}, {}), std::vector<std::uint16_t>{1});
  EXPECT_EQ(reduce<std::int64_t>(GetParam(), {{INT64_MAX}, {1}}, {}),
            std::vector<std::int64_t>{INT64_MIN});
}

TEST_P(Kernels, SumBoolsByOr) {
  const std::vector<Bool> sum = reduce<Bool>(
      GetParam(), {{{0}, {1}, {0}, {1}, {2}, {255}}, {{0}, {0}, {1}, {1}, {254}, {1}}}, {});
  EXPECT_TRUE(same_bits(sum, {{0}, {1}, {1}, {1}, {1}, {1}}));
}

TEST_P(Kernels, HaveNoneForAnUnknownDtype) {
  EXPECT_THROW(GetParam().reduce(static_cast<DataType>(0)), Error);
}

INSTANTIATE_TEST_SUITE_P(All, Kernels, ::testing::ValuesIn(kernels_under_test()),
                         [](const auto& table) { return std::string(table.param.name); });

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
