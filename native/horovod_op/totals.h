// What this process counted over all communicators, alive or gone. Any thread may read it at any
// time; a forked child begins again at zero.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/stats.h"

namespace omniccl::horovod_op {

struct TotalsSnapshot {
  Stats stats;
  std::map<std::string, std::uint64_t>
      passed_on;  // reason -> responses left to the stock operation
};

class Totals {
 public:
  // A communicator's counters as they are now; `id` is its own for ever.
  void update(std::uint64_t id, const Stats& stats);
  // The communicator is gone; its last counters stay in the sum.
  void retire(std::uint64_t id);
  void count_passed_on(const std::string& reason);
  // Since the process started or the last reset(), which the communicators do not notice.
  TotalsSnapshot snapshot() const;
  void reset();

  // Around fork(): no other thread holds the lock while the process is copied.
  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  void after_fork_in_child();

 private:
  Stats sum() const;  // under the lock, since the process started

  mutable std::mutex mutex_;
  Stats baseline_;  // the sum at the last reset()
  Stats retired_;
  std::map<std::uint64_t, Stats> live_;
  std::map<std::string, std::uint64_t> passed_on_;
};

}  // namespace omniccl::horovod_op
