// Which shard a chunk belongs to: round robin, beginning at a shard that moves on with each
// operation, so that operations of a few chunks load all shards alike.
#pragma once

#include <cstdint>

namespace omniccl {

class ShardMap {
 public:
  ShardMap(std::uint32_t shards, std::uint64_t operation)
      : shards_(shards), first_(static_cast<std::uint32_t>(operation % shards)) {}

  // The lowest chunk of `shard`; its next ones follow at distance stride().
  std::uint32_t first_chunk(std::uint32_t shard) const {
    return (shard + shards_ - first_) % shards_;
  }
  std::uint32_t stride() const { return shards_; }

 private:
  std::uint32_t shards_;
  std::uint32_t first_;
};

}  // namespace omniccl
