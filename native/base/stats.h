// What a communicator counts. Plain data: the owner adds, others read copies.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace omniccl {

struct Stats {
  std::uint64_t operations = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes_reduced = 0;  // size of the tensors taken
  std::uint64_t dense_bytes = 0;    // what a ring allreduce sends for them: 2 S (N-1)/N
  std::uint64_t bytes_sent = 0;  // to peers, every byte handed to the kernel, handshakes included
  std::uint64_t bytes_received = 0;  // from peers, likewise
  std::uint64_t blocks = 0;
  std::uint64_t nonzero_blocks = 0;        // of them, at this rank
  std::uint64_t bytes_copied_send = 0;     // payload copied in user space on its way out
  std::uint64_t bytes_copied_receive = 0;  // likewise on its way in
  Nanoseconds scan_time{0};    // zero test, checksum and gather list of this rank's blocks
  Nanoseconds wait_time{0};    // nothing to do but wait for peers
  Nanoseconds decode_time{0};  // sums of this rank's shard, results written to the outputs

  Stats& operator+=(const Stats& other) {
    return combine(other, [](auto& mine, const auto& theirs) { mine += theirs; });
  }
  Stats& operator-=(const Stats& other) {
    return combine(other, [](auto& mine, const auto& theirs) { mine -= theirs; });
  }

 private:
  template <typename Operation>
  Stats& combine(const Stats& other, Operation operation) {
    operation(operations, other.operations);
    operation(tensors, other.tensors);
    operation(bytes_reduced, other.bytes_reduced);
    operation(dense_bytes, other.dense_bytes);
    operation(bytes_sent, other.bytes_sent);
    operation(bytes_received, other.bytes_received);
    operation(blocks, other.blocks);
    operation(nonzero_blocks, other.nonzero_blocks);
    operation(bytes_copied_send, other.bytes_copied_send);
    operation(bytes_copied_receive, other.bytes_copied_receive);
    operation(scan_time, other.scan_time);
    operation(wait_time, other.wait_time);
    operation(decode_time, other.decode_time);
    return *this;
  }
};

}  // namespace omniccl
