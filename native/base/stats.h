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

  // Calls `visit(name, member pointer)` for each counter: the one list of them. The names are those
  // of hvd_omniccl.Stats, where times are in seconds.
  template <typename Visit>
  static void for_each_counter(Visit&& visit) {
    visit("operations", &Stats::operations);
    visit("tensors", &Stats::tensors);
    visit("bytes_reduced", &Stats::bytes_reduced);
    visit("dense_bytes", &Stats::dense_bytes);
    visit("bytes_sent", &Stats::bytes_sent);
    visit("bytes_received", &Stats::bytes_received);
    visit("blocks", &Stats::blocks);
    visit("nonzero_blocks", &Stats::nonzero_blocks);
    visit("bytes_copied_send", &Stats::bytes_copied_send);
    visit("bytes_copied_receive", &Stats::bytes_copied_receive);
    visit("scan_seconds", &Stats::scan_time);
    visit("wait_seconds", &Stats::wait_time);
    visit("decode_seconds", &Stats::decode_time);
  }

 private:
  template <typename Operation>
  Stats& combine(const Stats& other, Operation operation) {
    for_each_counter([&](const char*, auto counter) { operation(this->*counter, other.*counter); });
    return *this;
  }
};

}  // namespace omniccl
