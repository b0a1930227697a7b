// Waits for descriptors, by level-triggered epoll: what was not read or written is reported again,
// so a bounded turn loses no event.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/span.h"
#include "base/unique_fd.h"

namespace omniccl {

class Poller {
 public:
  struct Event {
    std::uint64_t cookie;
    bool readable;  // or closed, or in error: reading tells which
    bool writable;
  };

  Poller();

  struct Interest {
    bool read = true;
    bool write = false;
  };

  // `cookie` comes back in the events of `descriptor`.
  void add(int descriptor, std::uint64_t cookie, Interest interest);
  void modify(int descriptor, std::uint64_t cookie, Interest interest);
  void remove(int descriptor) noexcept;  // nothing happens when it is not there

  // Waits until something is ready or `timeout` has passed; zero only looks. The events stay valid
  // until the next call. A signal ends the wait early, with no events.
  Span<const Event> wait(Nanoseconds timeout);

 private:
  UniqueFd epoll_;
  std::vector<Event> events_;
};

}  // namespace omniccl
