#include "totals.h"

namespace omniccl::horovod_op {

void Totals::update(std::uint64_t id, const Stats& stats) {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_[id] = stats;
}

void Totals::retire(std::uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  retired_ += found->second;
  live_.erase(found);
}

void Totals::count_passed_on(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++passed_on_[reason];
}

TotalsSnapshot Totals::snapshot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  TotalsSnapshot result{sum(), passed_on_};
  result.stats -= baseline_;
  return result;
}

void Totals::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  baseline_ = sum();
  passed_on_.clear();
}

Stats Totals::sum() const {
  Stats result = retired_;
  for (const auto& [id, stats] : live_) result += stats;
  return result;
}

void Totals::after_fork_in_child() {
  baseline_ = Stats();
  retired_ = Stats();
  live_.clear();
  passed_on_.clear();
  mutex_.unlock();
}

}  // namespace omniccl::horovod_op
