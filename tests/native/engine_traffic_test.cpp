// What travels and what is copied, against the bounds that the documents state.
#include <gtest/gtest.h>

#include <random>

#include "support/ranks.h"
#include "support/reference.h"

namespace omniccl::testing {
namespace {

constexpr std::size_t kElements = std::size_t{4} << 20;  // 16 MiB of float32
constexpr std::size_t kBlock = 256;
constexpr double kBytes = kElements * sizeof(float);

using Blocks = std::vector<bool>;  // [block]: non-zero

std::vector<float> fill(const Blocks& blocks) {
  std::vector<float> values(blocks.size() * kBlock);
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (blocks[block]) values[block * kBlock + block % kBlock] = 1.0F;
  }
  return values;
}

std::vector<Blocks> draw(std::uint32_t size, double density, bool equal) {
  std::mt19937_64 random(size);
  std::bernoulli_distribution nonzero(density);
  std::vector<Blocks> blocks(size, Blocks(kElements / kBlock));
  for (std::size_t block = 0; block < blocks[0].size(); ++block) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      blocks[rank][block] = equal && rank > 0 ? blocks[0][block] : nonzero(random);
    }
  }
  return blocks;
}

// Runs one allreduce and returns each rank's counts of it.
std::vector<Stats> measure(const std::vector<Blocks>& blocks) {
  const auto size = static_cast<std::uint32_t>(blocks.size());
  Ranks ranks(size);
  for (const std::string& error : ranks.connect()) EXPECT_EQ(error, "");
  std::vector<Stats> stats(size);
  const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
    const std::vector<float> input = fill(blocks[rank]);
    std::vector<float> output(input.size());
    const std::vector<TensorView> views{{reinterpret_cast<const std::byte*>(input.data()),
                                         reinterpret_cast<std::byte*>(output.data()), input.size(),
                                         kBlock}};
    Reduction reduction;
    reduction.tensors = views;
    communicator.allreduce(reduction);
    stats[rank] = communicator.stats();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return stats;
}

// Shares of blocks: non-zero at `rank`, in the union, only at `rank`.
struct Shares {
  double own = 0;
  double united = 0;
  double exclusive = 0;
};

Shares shares(const std::vector<Blocks>& blocks, std::uint32_t rank) {
  Shares result;
  const std::size_t count = blocks[0].size();
  for (std::size_t block = 0; block < count; ++block) {
    std::size_t owners = 0;
    for (const Blocks& other : blocks) owners += other[block] ? 1 : 0;
    result.own += blocks[rank][block] ? 1 : 0;
    result.united += owners != 0 ? 1 : 0;
    result.exclusive += owners == 1 && blocks[rank][block] ? 1 : 0;
  }
  const auto total = static_cast<double>(count);
  return {result.own / total, result.united / total, result.exclusive / total};
}

class Traffic : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Traffic, IsProportionalToTheNonzeroBlocks) {
  const std::uint32_t size = GetParam();
  for (const bool equal : {false, true}) {
    const std::vector<Blocks> blocks = draw(size, 0.01, equal);
    const std::vector<Stats> stats = measure(blocks);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const Shares share = shares(blocks, rank);
      const double limit =
          kBytes * (size - 1) / size * (share.own + share.united - share.exclusive);
      EXPECT_LE(static_cast<double>(stats[rank].bytes_sent),
                1.1 * limit + 0.001 * kBytes + 64 * 1024)
          << "rank " << rank << (equal ? ", equal blocks" : ", random blocks");
      EXPECT_EQ(stats[rank].blocks, blocks[rank].size());
    }
  }
}

TEST_P(Traffic, OfZerosIsHeadersOnly) {
  for (const Stats& stats : measure(draw(GetParam(), 0.0, true))) {
    EXPECT_LE(stats.bytes_sent, 64 * 1024U);
    EXPECT_EQ(stats.nonzero_blocks, 0U);
  }
}

TEST_P(Traffic, OfDenseDataIsNotCopied) {
  for (const Stats& stats : measure(draw(GetParam(), 1.0, true))) {
    EXPECT_LT(static_cast<double>(stats.bytes_copied_send), 0.01 * kBytes);
    EXPECT_LT(static_cast<double>(stats.bytes_copied_receive), 0.01 * kBytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Traffic, ::testing::Values(2U, 3U, 4U));

}  // namespace
}  // namespace omniccl::testing
