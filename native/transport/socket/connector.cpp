#include "transport/socket/connector.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {
namespace {

constexpr Milliseconds kMinAttemptTime{1'000};
// Between two rounds over a peer's addresses.
constexpr Milliseconds kRetryPause{100};

}  // namespace

// The attempts to reach one target, one address after the other.
class Connector::Attempt {
 public:
  explicit Attempt(const ConnectTarget& target) : target_(target) {}

  std::size_t next = 0;    // address
  Clock::time_point ends;  // or, without a channel, when the next round begins
  std::optional<HandshakeChannel<WorkerHandshake>> channel;
  bool connected = false;

  std::string address() const { return target_.addresses[next - 1].to_string(); }
  void note(const std::string& what, ErrorKind kind) {
    // Where shared memory is but one way, it says nothing that the other does not.
    if (target_.addresses[next - 1].is_local() && !target_.addresses.back().is_local()) return;
    trouble_ += (trouble_.empty() ? "" : "; ") + address() + ": " + what;
    if (kind == ErrorKind::kPrecondition) refused_ = true;
  }
  // Every address was tried. Throws Error(kPrecondition) when one of them refused.
  void end_round() {
    const std::string text = trouble_.empty() ? "it has no address" : std::exchange(trouble_, "");
    if (refused_) {
      throw Error(ErrorKind::kPrecondition, "cannot reach " + target_.name + ": " + text);
    }
    // It may be late, or its place for strangers full: another round.
    next = 0;
    ends = Clock::now() + kRetryPause;
    last_trouble_ = text;
  }
  // What is known to be wrong, the attempt under way included.
  std::string describe() const { return channel ? address() + ": no answer" : last_trouble_; }

 private:
  const ConnectTarget& target_;
  std::string trouble_;       // with the addresses of this round
  std::string last_trouble_;  // of the last whole round
  bool refused_ = false;
};

Connector::Connector(Poller& poller, std::uint64_t first_cookie, const SecretKey& key,
                     std::vector<ConnectTarget> targets, std::vector<SocketAddress> sources,
                     Deadline deadline)
    : poller_(poller),
      first_cookie_(first_cookie),
      key_(key),
      targets_(std::move(targets)),
      sources_(std::move(sources)),
      deadline_(deadline),
      sockets_(targets_.size()),
      open_(targets_.size()) {
  for (const ConnectTarget& target : targets_) {
    attempts_.push_back(std::make_unique<Attempt>(target));
  }
}

Connector::~Connector() = default;

void Connector::start() {
  for (std::size_t target = 0; target < targets_.size(); ++target) start_next_address(target);
}

void Connector::start_next_address(std::size_t target) {
  Attempt& attempt = *attempts_[target];
  const std::vector<SocketAddress>& addresses = targets_[target].addresses;
  attempt.channel.reset();
  attempt.connected = false;
  while (attempt.next < addresses.size()) {
    const SocketAddress& address = addresses[attempt.next++];
    const auto share = (deadline_ - Clock::now()) / static_cast<long>(addresses.size());
    attempt.ends = Clock::now() + std::max<Nanoseconds>(share, kMinAttemptTime);
    try {
      attempt.channel.emplace(begin_connect(address, sources_),
                              WorkerHandshake(key_, targets_[target].hello));
    } catch (const Error& error) {
      attempt.note(error.what(), ErrorKind::kPeerFailure);
      continue;
    }
    poller_.add(attempt.channel->descriptor(), first_cookie_ + target, {true, true});
    return;
  }
  attempt.end_round();
}

void Connector::on_event(std::uint64_t cookie) {
  const std::size_t target = cookie - first_cookie_;
  if (attempts_[target] == nullptr || !attempts_[target]->channel) return;
  Attempt& attempt = *attempts_[target];
  try {
    if (!attempt.connected) {
      const int error = connect_error(attempt.channel->descriptor());
      if (error != 0) throw Error(ErrorKind::kPeerFailure, std::strerror(error));
      attempt.connected = true;
      attempt.ends = deadline_;  // it is there, and may only be late with its answer
      attempt.channel->send(attempt.channel->handshake().hello());
    }
    attempt.channel->advance();
  } catch (const Error& error) {
    attempt.note(error.what(), error.kind());
    start_next_address(target);
    return;
  }
  if (!attempt.channel->done()) {
    poller_.modify(attempt.channel->descriptor(), cookie, {true, attempt.channel->wants_write()});
    return;
  }
  poller_.remove(attempt.channel->descriptor());
  sockets_[target] = attempt.channel->release(attempt.address());
  attempts_[target].reset();
  --open_;
}

void Connector::expire(Clock::time_point now) {
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    if (attempts_[target] == nullptr || now < attempts_[target]->ends) continue;
    if (attempts_[target]->channel) attempts_[target]->note("no answer", ErrorKind::kPeerFailure);
    start_next_address(target);
  }
}

std::string Connector::trouble(std::size_t target) const { return attempts_[target]->describe(); }

}  // namespace omniccl
