// What a worker may have in flight to one shard: payload bytes and chunks. A result is the credit
// for its contribution; no message is needed.
#pragma once

#include <cstdint>
#include <deque>

namespace omniccl {

class SendWindow {
 public:
  SendWindow(std::uint64_t bytes, std::uint32_t chunks) : bytes_(bytes), chunks_(chunks) {}

  bool admits(std::uint64_t bytes) const {
    return in_flight_.size() < chunks_ && bytes <= bytes_ - bytes_in_flight_;
  }
  void sent(std::uint64_t bytes) {
    in_flight_.push_back(bytes);
    bytes_in_flight_ += bytes;
  }
  // The oldest contribution was answered.
  void credit() {
    bytes_in_flight_ -= in_flight_.front();
    in_flight_.pop_front();
  }
  bool empty() const { return in_flight_.empty(); }

 private:
  std::uint64_t bytes_;
  std::uint32_t chunks_;
  std::uint64_t bytes_in_flight_ = 0;
  std::deque<std::uint64_t> in_flight_;
};

}  // namespace omniccl
