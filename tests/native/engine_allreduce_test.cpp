// Several ranks in one process against the plain sum, bit for bit.
#include <gtest/gtest.h>

#include <random>

#include "support/allreduce_check.h"

namespace omniccl::testing {
namespace {

class Allreduce : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Allreduce, SumsEveryDtypeAtEveryDensity) {
  Ranks ranks(GetParam());
  expect_connected(ranks);
  for (const double density : {0.0, 0.01, 0.5, 1.0}) {
    const std::vector<std::size_t> tensors{0, 1, 255, 256, 257, 100'000};
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::Type;
      expect_reference<T>(ranks, {GetParam(), tensors, 256, density}, size_of(dtype_of<T>()));
    });
  }
}

TEST_P(Allreduce, ScalesContributionsAndResults) {
  Ranks ranks(GetParam());
  expect_connected(ranks);
  const double average = 1.0 / GetParam();
  expect_reference<float>(ranks, {GetParam(), {70'001}, 256, 0.4, 0.3, average}, 6);
  expect_reference<double>(ranks, {GetParam(), {70'001}, 256, 0.4, 3.7, average}, 7);
  expect_reference<Float16>(ranks, {GetParam(), {70'001}, 256, 0.4, 0.5, average}, 8);
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_integral_v<T>) {
      expect_reference<T>(ranks, {GetParam(), {70'001}, 256, 0.4, 1.0, average}, 9);
    }
  });
}

TEST_P(Allreduce, TakesAnyBlockSize) {
  Ranks ranks(GetParam());
  expect_connected(ranks);
  for (const std::uint32_t block : {1U, 16U, 33U, 4096U, 16'384U}) {
    expect_reference<float>(ranks, {GetParam(), {3, 50'000, 7}, block, 0.2}, block);
  }
}

TEST_P(Allreduce, FusesManySmallTensors) {
  Ranks ranks(GetParam());
  expect_connected(ranks);
  std::vector<std::size_t> tensors;
  for (std::size_t i = 0; i < 1500; ++i) tensors.push_back(i % 61);
  expect_reference<float>(ranks, {GetParam(), tensors, 16, 0.5}, 10);
}

TEST_P(Allreduce, WorksInPlace) {
  Ranks ranks(GetParam());
  expect_connected(ranks);
  std::mt19937_64 random(11);
  std::vector<std::vector<float>> inputs;
  for (std::uint32_t rank = 0; rank < GetParam(); ++rank) {
    inputs.push_back(random_blocks<float>(300'000, 256, 0.3, random));
  }
  std::vector<std::vector<float>> buffers = inputs;
  const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
    const std::vector<TensorView> views{view(buffers[rank], buffers[rank], 256)};
    Reduction reduction;
    reduction.postscale = 0.5;
    reduction.tensors = views;
    communicator.allreduce(reduction);
  });
  for (const std::string& error : errors) ASSERT_EQ(error, "");
  const auto expected = reference_sum(inputs, 1.0, 0.5);
  for (const auto& buffer : buffers) EXPECT_TRUE(same_bits(buffer, expected));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Allreduce, ::testing::Values(1U, 2U, 3U, 4U, 7U));

TEST(AllreduceFactors, AreRefusedForDtypesThatTakeNone) {
  Ranks ranks(1);
  expect_connected(ranks);
  const auto takes = [&](DataType dtype, double prescale, double postscale) {
    Reduction reduction;
    reduction.dtype = dtype;
    reduction.prescale = prescale;
    reduction.postscale = postscale;
    try {
      ranks[0].allreduce(reduction);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(name_of(dtype)), std::string::npos) << error.what();
      return false;
    }
  };
  for (const DataType dtype : kDataTypes) {
    EXPECT_EQ(takes(dtype, 0.5, 1.0), !is_integer(dtype)) << name_of(dtype);
    EXPECT_EQ(takes(dtype, 1.0, 0.5), dtype != DataType::kBool) << name_of(dtype);
  }
}

// All kernels, small slot memory (many turns, full windows and rings) and no payload checksum give
// the same bits.
TEST(AllreduceSettings, DoNotChangeTheBits) {
  for (const KernelTable* kernels : available_kernels()) {
    for (const std::uint64_t slot_memory : {std::uint64_t{3 * 4096}, std::uint64_t{0}}) {
      CommunicatorConfig config;
      config.kernels = kernels;
      config.slot_memory_bytes = slot_memory;
      config.payload_checksum = slot_memory == 0;
      Ranks ranks(3, config);
      expect_connected(ranks);
      expect_reference<float>(ranks, {3, {200'000, 5}, 256, 0.6}, 12);
      expect_reference<Float16>(ranks, {3, {200'000, 5}, 256, 0.6, 0.7, 0.3}, 13);
    }
  }
}

TEST(AllreduceMemory, RefusesABlockThatDoesNotFitAndGoesOn) {
  CommunicatorConfig config;
  config.slot_memory_bytes = 2 * 1024;
  Ranks ranks(2, config);
  expect_connected(ranks);
  std::vector<float> buffer(4096);
  const auto errors = ranks.run([&](std::uint32_t, Communicator& communicator) {
    std::vector<float> output(buffer.size());
    const std::vector<TensorView> views{view(buffer, output, 256)};
    Reduction reduction;
    reduction.tensors = views;
    communicator.allreduce(reduction);
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("OMNICCL_SLOT_MEMORY to at least 4096"), std::string::npos) << error;
  }
  expect_reference<float>(ranks, {2, {4096}, 64, 0.5}, 14);
}

}  // namespace
}  // namespace omniccl::testing
