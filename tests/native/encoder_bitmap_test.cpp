#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "encoder/block_bitmap.h"

namespace omniccl {
namespace {

using Runs = std::vector<std::pair<std::size_t, std::size_t>>;

Runs plain_runs(const std::vector<bool>& bits) {
  Runs runs;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (!bits[i]) continue;
    if (!runs.empty() && runs.back().first + runs.back().second == i) {
      ++runs.back().second;
    } else {
      runs.emplace_back(i, 1);
    }
  }
  return runs;
}

TEST(BlockBitmap, FindsTheRunsOfAnyPattern) {
  std::mt19937_64 random(1);
  for (const std::size_t blocks : {1U, 7U, 8U, 63U, 64U, 65U, 128U, 200U, 1000U}) {
    for (const double density : {0.0, 0.05, 0.5, 0.95, 1.0}) {
      std::bernoulli_distribution draw(density);
      std::vector<bool> bits(blocks);
      std::vector<std::byte> bitmap(bitmap_bytes(blocks));
      std::size_t count = 0;
      for (std::size_t i = 0; i < blocks; ++i) {
        bits[i] = draw(random);
        if (!bits[i]) continue;
        set_bit(bitmap, i);
        ++count;
      }
      Runs runs;
      for_each_run(blocks, bitmap, [&](std::size_t first, std::size_t length) {
        runs.emplace_back(first, length);
      });
      EXPECT_EQ(runs, plain_runs(bits)) << blocks << " blocks at " << density;
      EXPECT_EQ(count_set(bitmap), count);
      EXPECT_TRUE(padding_is_clear(bitmap, blocks));
    }
  }
}

TEST(BlockBitmap, NoticesBitsPastItsEnd) {
  std::vector<std::byte> bitmap(1);
  set_bit(bitmap, 5);
  EXPECT_TRUE(padding_is_clear(bitmap, 6));
  EXPECT_FALSE(padding_is_clear(bitmap, 5));
}

}  // namespace
}  // namespace omniccl
