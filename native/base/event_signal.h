// Wakes a thread that waits in a Poller.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/unique_fd.h"

namespace omniccl {

class EventSignal {
 public:
  EventSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw system_error("eventfd", errno);
  }

  // From any thread; readable until reset().
  void set() const noexcept {
    const std::uint64_t one = 1;
    // It fails only when it is set so often that it cannot count further, and is set then.
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }
  void reset() const noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
  }
  int descriptor() const noexcept { return event_.get(); }

 private:
  UniqueFd event_;
};

}  // namespace omniccl
