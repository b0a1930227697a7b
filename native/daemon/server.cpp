#include "daemon/server.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "transport/open_connection.h"
#include "transport/socket/acceptor.h"
#include "transport/socket/local_address.h"

namespace omniccl {
namespace {

constexpr int kBacklog = 1024;
constexpr Acceptor::Limits kStrangers{1024, 256};
// A job that starts again at once, as an elastic one does, is the same visit.
constexpr Milliseconds kOneShotPause{2'000};

constexpr std::uint64_t kStopCookie = 0;
constexpr std::uint64_t kAcceptorCookie = 1;

Listener listen_on(const HostPort& place) {
  const std::vector<SocketAddress> addresses = resolve(place, true);
  for (std::size_t i = 0; i + 1 < addresses.size(); ++i) {
    try {
      return Listener(addresses[i], kBacklog);
    } catch (const Error&) {
      continue;  // such as IPv6 on a host without it; the last one's error is told
    }
  }
  return Listener(addresses.back(), kBacklog);
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      listener_(listen_on(options_.listen)),
      registry_(options_.slot_memory_bytes, options_.threads) {
  listen_locally();
  const KernelTable& kernels =
      options_.kernels != nullptr ? *options_.kernels : find_kernels("auto");
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.push_back(
        std::make_unique<ServiceThread>(kernels, options_.log, [this](const JobKey& key) {
          registry_.leave(key);
          options_.log(LogLevel::kInfo, "now " + registry_.summary());
        }));
  }
}

// Without it all ranks come by TCP.
void Server::listen_locally() {
  std::string why_not = why_no_shared_memory();
  try {
    if (why_not.empty()) local_listener_.emplace(local_address_of(address()), kBacklog);
  } catch (const Error& error) {
    why_not = error.what();
  }
  if (why_not.empty()) return;
  options_.log(LogLevel::kWarning,
               "offers no shared memory to the ranks of this host (" + why_not + ")");
}

std::vector<const Listener*> Server::listeners() const {
  std::vector<const Listener*> all{&listener_};
  if (local_listener_) all.push_back(&*local_listener_);
  return all;
}

Server::~Server() {
  for (const auto& thread : threads_) thread->stop();
}

void Server::run(int stop) {
  Poller poller;
  poller.add(stop, kStopCookie, {});
  Acceptor acceptor(
      poller, kAcceptorCookie, listeners(), options_.key, static_cast<Admission&>(*this),
      kStrangers,
      [this](const Hello& hello, PeerSocket socket) { on_peer(hello, std::move(socket)); },
      options_.log);
  for (;;) {
    constexpr Milliseconds kTick{100};  // what Acceptor::expire() asks for
    for (const Poller::Event& event : poller.wait(kTick)) {
      if (event.cookie == kStopCookie) return;
      acceptor.on_event(event.cookie);
    }
    const Clock::time_point now = Clock::now();
    acceptor.expire(now);
    if (options_.one_shot && one_shot_done(now)) return;
  }
}

void Server::admit(const Hello& hello) {
  if (hello.role != Hello::Role::kWorker) return;
  const JobRegistry::Place place = registry_.admit(hello);
  if (place.is_new) threads_[place.thread]->add_job(hello, place.memory);
  any_job_ = true;
}

void Server::on_peer(const Hello& hello, PeerSocket socket) {
  if (hello.role != Hello::Role::kWorker) return;  // it knows now what it wanted to know
  const std::optional<std::size_t> thread = registry_.enter(hello);
  if (thread) threads_[*thread]->add_worker(hello, std::move(socket));
}

bool Server::one_shot_done(Clock::time_point now) {
  if (!any_job_ || registry_.jobs() != 0) {
    last_busy_ = now;
    return false;
  }
  return now - last_busy_ >= kOneShotPause;
}

}  // namespace omniccl
