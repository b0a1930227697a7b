#include "transport/poller.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"

namespace omniccl {
namespace {

void control(int epoll, int action, int descriptor, std::uint64_t cookie,
             Poller::Interest interest) {
  epoll_event event{};
  if (interest.read) event.events |= EPOLLIN;
  if (interest.write) event.events |= EPOLLOUT;
  event.data.u64 = cookie;
  if (::epoll_ctl(epoll, action, descriptor, &event) != 0) throw system_error("epoll_ctl", errno);
}

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw system_error("epoll_create1", errno);
}

void Poller::add(int descriptor, std::uint64_t cookie, Interest interest) {
  control(epoll_.get(), EPOLL_CTL_ADD, descriptor, cookie, interest);
}

void Poller::modify(int descriptor, std::uint64_t cookie, Interest interest) {
  control(epoll_.get(), EPOLL_CTL_MOD, descriptor, cookie, interest);
}

void Poller::remove(int descriptor) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

Span<const Poller::Event> Poller::wait(Nanoseconds timeout) {
  constexpr std::size_t kMaxEvents = 64;
  std::array<epoll_event, kMaxEvents> ready;
  // Rounded up: a wait that ends just before its deadline would spin.
  const auto milliseconds = std::chrono::ceil<Milliseconds>(timeout).count();
  const int count =
      ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(kMaxEvents),
                   static_cast<int>(std::clamp<std::int64_t>(milliseconds, 0, 60'000)));
  if (count < 0 && errno != EINTR) throw system_error("epoll_wait", errno);
  events_.clear();
  for (int i = 0; i < count; ++i) {
    const std::uint32_t events = ready[static_cast<std::size_t>(i)].events;
    events_.push_back({ready[static_cast<std::size_t>(i)].data.u64,
                       (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0, (events & EPOLLOUT) != 0});
  }
  return events_;
}

}  // namespace omniccl
