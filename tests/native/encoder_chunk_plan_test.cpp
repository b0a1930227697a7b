#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "encoder/chunk_plan.h"

namespace omniccl {
namespace {

// Memory is never touched by a plan: an address is enough.
TensorView tensor(std::uint64_t elements, std::uint32_t block, std::uintptr_t address) {
  return {reinterpret_cast<const std::byte*>(address), reinterpret_cast<std::byte*>(address),
          elements, block};
}

// Checks that the chunks cover each tensor once and in order, within the limits.
void expect_cover(const std::vector<TensorView>& tensors, const ChunkLimits& limits) {
  const ChunkPlan plan(DataType::kFloat32, tensors, limits);
  std::vector<std::uint64_t> covered(tensors.size());
  std::uint64_t blocks = 0;
  Chunk chunk;
  for (std::uint32_t index = 0; index < plan.chunk_count(); ++index) {
    plan.get(index, chunk);
    EXPECT_LE(chunk.blocks, limits.max_blocks);
    EXPECT_LE(chunk.segments.size(), limits.max_segments);
    std::uint64_t bytes = 0;
    std::uint32_t segment_blocks = 0;
    for (const ChunkSegment& segment : chunk.segments) {
      const auto at = reinterpret_cast<std::uintptr_t>(segment.input);
      std::size_t t = 0;
      while (at < reinterpret_cast<std::uintptr_t>(tensors[t].input) ||
             at >= reinterpret_cast<std::uintptr_t>(tensors[t].input) + tensors[t].elements * 4) {
        ++t;
      }
      EXPECT_EQ((at - reinterpret_cast<std::uintptr_t>(tensors[t].input)) / 4, covered[t]);
      EXPECT_EQ(segment.shape.block_elements, tensors[t].block_elements);
      covered[t] += segment.shape.elements();
      bytes += segment.shape.elements() * 4;
      segment_blocks += segment.shape.blocks;
    }
    EXPECT_EQ(segment_blocks, chunk.blocks);
    EXPECT_TRUE(bytes <= limits.max_bytes || chunk.blocks == 1);
    blocks += chunk.blocks;
  }
  EXPECT_EQ(blocks, plan.block_count());
  for (std::size_t t = 0; t < tensors.size(); ++t) EXPECT_EQ(covered[t], tensors[t].elements);
}

TEST(ChunkPlan, CoversEveryTensorOnce) {
  const std::uintptr_t mebi = std::uintptr_t{1} << 20;
  expect_cover({tensor(1, 256, mebi)}, {});
  expect_cover({tensor(255, 256, mebi), tensor(256, 256, 2 * mebi), tensor(257, 256, 3 * mebi)},
               {});
  expect_cover(
      {tensor(100'000, 33, mebi), tensor(7, 16, 9 * mebi), tensor(65'536, 65'536, 10 * mebi)},
      {4096, 100, 2});
}

TEST(ChunkPlan, AShortTensorWeighsWhatItHolds) {
  std::vector<TensorView> tensors;
  for (std::uintptr_t i = 0; i < 200; ++i) tensors.push_back(tensor(10, 16'384, (i + 1) << 20));
  EXPECT_EQ(ChunkPlan(DataType::kFloat32, tensors, {}).chunk_count(), 1U);
}

TEST(ChunkPlan, SkipsEmptyTensors) {
  const std::vector<TensorView> tensors{{nullptr, nullptr, 0, 256}};
  EXPECT_EQ(ChunkPlan(DataType::kFloat32, tensors, {}).chunk_count(), 0U);
}

TEST(ChunkPlan, CountsBeyond32Bits) {
  const std::uint64_t elements = (std::uint64_t{1} << 33) + 5;
  const std::vector<TensorView> tensors{tensor(elements, 16, 4096)};
  const ChunkPlan plan(DataType::kFloat64, tensors, {});
  EXPECT_EQ(plan.block_count(), (std::uint64_t{1} << 29) + 1);
  EXPECT_EQ(plan.byte_count(), elements * 8);
  Chunk chunk;
  plan.get(plan.chunk_count() - 1, chunk);
  EXPECT_EQ(chunk.segments.back().shape.last_elements, 5U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(chunk.segments.back().input) +
                chunk.segments.back().shape.elements() * 8,
            4096 + elements * 8);
}

TEST(ChunkPlan, NumbersMoreBlocksThan32BitsHold) {
  const std::uint64_t elements = (std::uint64_t{1} << 32) + 5;
  const std::vector<TensorView> tensors{tensor(elements, 1, 4096)};
  const ChunkPlan plan(DataType::kInt32, tensors, {});
  EXPECT_EQ(plan.block_count(), elements);
  const std::uint32_t blocks_of_chunk = ChunkLimits().max_blocks;
  Chunk chunk;
  for (const std::uint64_t block : {(std::uint64_t{1} << 31) + 1, elements - 1}) {
    plan.get(static_cast<std::uint32_t>(block / blocks_of_chunk), chunk);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(chunk.segments.front().input),
              4096 + block / blocks_of_chunk * blocks_of_chunk * 4);
  }
  EXPECT_EQ(chunk.blocks, 5U);
}

TEST(ChunkPlan, RefusesABlockOfNothing) {
  const std::vector<TensorView> tensors{tensor(5, 0, 4096)};
  EXPECT_THROW(ChunkPlan(DataType::kFloat32, tensors, {}), Error);
}

TEST(DefaultBlock, FollowsTheRows) {
  EXPECT_EQ(default_block_elements(0), 256U);
  EXPECT_EQ(default_block_elements(1), 16U);
  EXPECT_EQ(default_block_elements(12), 24U);
  EXPECT_EQ(default_block_elements(16), 16U);
  EXPECT_EQ(default_block_elements(32), 32U);
  EXPECT_EQ(default_block_elements(255), 255U);
  EXPECT_EQ(default_block_elements(256), 256U);
  EXPECT_EQ(default_block_elements(100'000), 256U);
}

}  // namespace
}  // namespace omniccl
