// Time as the engine uses it: steady, never the wall clock.
#pragma once

#include <chrono>

namespace omniccl {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Milliseconds = std::chrono::milliseconds;
using Nanoseconds = std::chrono::nanoseconds;

// Adds the time from its construction to its destruction to a total.
class ScopedTimer {
 public:
  explicit ScopedTimer(Nanoseconds& total) noexcept : total_(total), start_(Clock::now()) {}
  ~ScopedTimer() { total_ += Clock::now() - start_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Nanoseconds& total_;
  Clock::time_point start_;
};

}  // namespace omniccl
