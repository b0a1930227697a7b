// A worker's end of the connection to one shard: sends this rank's chunks of that shard as credit
// allows, writes the results that come back to the output tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/stats.h"
#include "encoder/block_encoder.h"
#include "encoder/chunk_plan.h"
#include "protocol/messages.h"
#include "protocol/slot_memory.h"
#include "transport/connection.h"
#include "worker/result_decoder.h"
#include "worker/send_window.h"
#include "worker/shard_map.h"

namespace omniccl {

// One allreduce, as the parts that work on it see it. Outlives the operation.
struct Operation {
  std::uint64_t number = 0;  // counts from 0 in each communicator
  const ChunkPlan& plan;
  ShardMap shard_map;
  DecodeRules rules;
  bool payload_checksum = true;
  Stats& stats;

  // Scans chunk `index` and counts its blocks; `chunk` and `encoded` are storage that is used
  // again.
  void scan(std::uint64_t index, Chunk& chunk, EncodedChunk& encoded) const;
};

class ShardLink final : public FrameSink {
 public:
  ShardLink(std::uint32_t shard, std::unique_ptr<Connection> connection, const SlotMemory& memory);

  Connection& connection() { return *connection_; }
  const Connection& connection() const { return *connection_; }

  void begin(const Operation& operation);
  // Scans and queues up to `most` chunks, as far as the window admits. Returns whether any was.
  bool produce(unsigned most);
  // Whether the shard has said that all ranks are there. Embedded ones do not.
  bool ready() const { return ready_; }
  // Whether all results have arrived.
  bool done() const { return next_result_ >= chunk_count_; }

  void begin_frame(const FrameHead& frame, std::vector<iovec>& payload) override;
  void end_frame() override;

 private:
  void queue(const EncodedChunk& encoded);

  std::uint32_t shard_;
  std::unique_ptr<Connection> connection_;
  SendWindow window_;
  const Operation* operation_ = nullptr;
  std::uint64_t chunk_count_ = 0;
  std::uint64_t next_chunk_ = 0;   // to send; 64 bits so that adding the stride cannot wrap
  std::uint64_t next_result_ = 0;  // to receive

  EncodedChunk encoded_;      // of next_chunk_, once scanned
  bool has_encoded_ = false;  // it waits for credit
  bool ready_ = false;
  bool result_begun_ = false;  // the frame in progress is a result
  Chunk sending_;
  Chunk receiving_;
  ResultMessage result_;
};

}  // namespace omniccl
