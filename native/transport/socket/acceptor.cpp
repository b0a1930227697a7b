#include "transport/socket/acceptor.h"

#include <sys/socket.h>

#include <iterator>
#include <utility>

#include "base/error.h"

namespace omniccl {
namespace {

// What a stranger can cost: a connection for so long.
constexpr Milliseconds kHandshakeTimeout{5'000};
// How long nothing is accepted when the system has no descriptors or memory left.
constexpr Milliseconds kAcceptPause{100};
// A port scanner must not fill the log.
constexpr Milliseconds kBetweenWarnings{1'000};

}  // namespace

struct Acceptor::Incoming {
  Incoming(UniqueFd socket, ShardHandshake handshake, const SocketAddress& from_address)
      : channel(std::move(socket), std::move(handshake)),
        from(from_address.to_string()),
        host(from_address.host()) {}

  HandshakeChannel<ShardHandshake> channel;
  std::string from;  // "10.0.0.1:4711"
  std::string host;  // "10.0.0.1"
  Clock::time_point ends = Clock::now() + kHandshakeTimeout;
};

Acceptor::Acceptor(Poller& poller, std::uint64_t first_cookie,
                   std::vector<const Listener*> listeners, const SecretKey& key,
                   Admission& admission, const Limits& limits, OnPeer on_peer, LogSink log)
    : poller_(poller),
      first_cookie_(first_cookie),
      next_cookie_(first_cookie + listeners.size()),
      listeners_(std::move(listeners)),
      key_(key),
      admission_(admission),
      limits_(limits),
      on_peer_(std::move(on_peer)),
      log_(std::move(log)) {
  resume();
}

Acceptor::~Acceptor() {
  if (!paused_) pause();
}

void Acceptor::pause() {
  for (const Listener* listener : listeners_) poller_.remove(listener->descriptor());
  paused_ = true;
}

void Acceptor::resume() {
  std::uint64_t cookie = first_cookie_;
  for (const Listener* listener : listeners_) poller_.add(listener->descriptor(), cookie++, {});
  paused_ = false;
}

void Acceptor::on_event(std::uint64_t cookie) {
  if (cookie - first_cookie_ < listeners_.size()) {
    accept_all(*listeners_[cookie - first_cookie_]);
    return;
  }
  const auto found = incoming_.find(cookie);
  if (found == incoming_.end()) return;
  Incoming& incoming = *found->second;
  try {
    incoming.channel.advance();
  } catch (const Error& error) {
    warn("refused a connection from " + incoming.from + ": " + error.what());
    const std::vector<std::byte>& refusal = incoming.channel.handshake().refusal();
    // One attempt: a stranger gets no more, and no buffer of ours waits for it.
    ::send(incoming.channel.descriptor(), refusal.data(), refusal.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
    drop(found);
    return;
  }
  if (!incoming.channel.done()) {
    poller_.modify(incoming.channel.descriptor(), cookie, {true, incoming.channel.wants_write()});
    return;
  }
  poller_.remove(incoming.channel.descriptor());
  const Hello peer = incoming.channel.handshake().peer();
  PeerSocket socket = incoming.channel.release(incoming.from);
  drop(found);
  on_peer_(peer, std::move(socket));
}

void Acceptor::accept_all(const Listener& listener) {
  try {
    for (;;) {
      SocketAddress from;
      UniqueFd socket = listener.accept(from);
      if (!socket) return;
      const auto of_address = of_address_.find(from.host());
      if (incoming_.size() >= limits_.connections ||
          (of_address != of_address_.end() &&
           of_address->second >= limits_.connections_of_address)) {
        warn("closed a connection from " + from.to_string() + ": too many are not authenticated");
        continue;
      }
      ++of_address_[from.host()];
      const std::uint64_t cookie = next_cookie_++;
      auto incoming =
          std::make_unique<Incoming>(std::move(socket), ShardHandshake(key_, admission_), from);
      poller_.add(incoming->channel.descriptor(), cookie, {});
      incoming_.emplace(cookie, std::move(incoming));
    }
  } catch (const Error& error) {
    // Out of descriptors or memory. The listener stays readable: looking away for a moment keeps
    // us from spinning until connections that are open have ended.
    warn(std::string("cannot accept connections: ") + error.what());
    pause();
    paused_until_ = Clock::now() + kAcceptPause;
  }
}

void Acceptor::drop(std::map<std::uint64_t, std::unique_ptr<Incoming>>::iterator incoming) {
  const auto of_address = of_address_.find(incoming->second->host);
  if (--of_address->second == 0) of_address_.erase(of_address);
  incoming_.erase(incoming);
}

void Acceptor::expire(Clock::time_point now) {
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    const auto next = std::next(it);
    if (now >= it->second->ends) {
      warn("closed a connection from " + it->second->from + ": it did not say who it is");
      drop(it);
    }
    it = next;
  }
  if (paused_ && now >= paused_until_) resume();
}

void Acceptor::warn(const std::string& text) {
  const Clock::time_point now = Clock::now();
  if (now < next_warning_) {
    ++warnings_left_out_;
    return;
  }
  next_warning_ = now + kBetweenWarnings;
  const std::uint64_t left_out = std::exchange(warnings_left_out_, 0);
  if (!log_) return;
  log_(LogLevel::kWarning,
       left_out == 0 ? text
                     : text + " (and " + std::to_string(left_out) + " such messages before it)");
}

}  // namespace omniccl
