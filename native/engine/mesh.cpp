#include "engine/mesh.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace omniccl {
namespace {

// What a stranger can cost: so many connections, so long each.
constexpr std::size_t kMaxPendingStrangers = 64;
constexpr Milliseconds kHandshakeTimeout{5'000};
constexpr Milliseconds kMinAttemptTime{1'000};
// Between two rounds over a rank's addresses.
constexpr Milliseconds kRetryPause{100};

constexpr std::uint64_t kListenerCookie = ~std::uint64_t{0};

// Moves the bytes of a handshake over a socket, which reads no byte more than it needs.
template <typename Handshake>
class HandshakeChannel {
 public:
  HandshakeChannel(UniqueFd socket, Handshake handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  int descriptor() const { return socket_.get(); }
  Handshake& handshake() { return handshake_; }
  bool wants_write() const { return sent_ < out_.size(); }
  bool done() const { return handshake_.expected() == 0 && !wants_write(); }

  void send(const std::vector<std::byte>& bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  // Reads and writes what can be. Throws Error when the peer is gone or not ours.
  void advance() {
    write_some();
    while (handshake_.expected() != 0 && read_some()) {
      if (in_.size() < handshake_.expected()) continue;
      const std::vector<std::byte> message = std::move(in_);
      in_.clear();
      send(handshake_.feed(message));
      write_some();
    }
  }

  void write_some() {
    while (wants_write()) {
      const ssize_t count = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count < 0) throw Error(ErrorKind::kPeerFailure, std::strerror(errno));
      sent_ += static_cast<std::size_t>(count);
    }
  }

  MeshSocket release(std::string address) {
    return {std::move(socket_), std::move(address), sent_, received_};
  }

 private:
  bool read_some() {
    const std::size_t have = in_.size();
    in_.resize(handshake_.expected());
    const ssize_t count = ::recv(socket_.get(), in_.data() + have, in_.size() - have, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) throw Error(ErrorKind::kPeerFailure, "it closed the connection");
    if (count < 0 && error == EINTR) return true;
    if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return false;
    if (count < 0) throw Error(ErrorKind::kPeerFailure, std::strerror(error));
    received_ += static_cast<std::uint64_t>(count);
    return true;
  }

  UniqueFd socket_;
  Handshake handshake_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace

// This rank's attempts to reach one shard, one address after the other.
class Mesh::Outgoing {
 public:
  std::vector<SocketAddress> addresses;
  std::size_t next = 0;
  Clock::time_point attempt_ends;  // or, without a channel, when the next round begins
  std::optional<HandshakeChannel<WorkerHandshake>> channel;
  bool connected = false;
  // What was wrong with the addresses in this round, in words.
  std::string trouble;
  ErrorKind trouble_kind = ErrorKind::kPeerFailure;
  std::string last_trouble;  // of the last whole round

  // What is known to be wrong, the attempt under way included.
  std::string describe() const { return channel ? address() + ": no answer" : last_trouble; }
  std::string address() const { return addresses[next - 1].to_string(); }
  void note(const std::string& what, ErrorKind kind) {
    trouble += (trouble.empty() ? "" : "; ") + address() + ": " + what;
    if (kind == ErrorKind::kPrecondition) trouble_kind = kind;
  }
};

class Mesh::Incoming {
 public:
  Incoming(UniqueFd socket, ShardHandshake handshake, std::string from_address)
      : channel(std::move(socket), std::move(handshake)), from(std::move(from_address)) {}

  HandshakeChannel<ShardHandshake> channel;
  std::string from;
  Clock::time_point ends = Clock::now() + kHandshakeTimeout;
};

Mesh::Mesh(std::uint32_t rank, std::uint32_t size, const SessionCredentials& credentials,
           const TcpListener& listener, Span<const Endpoint> endpoints, const LogSink& log)
    : rank_(rank),
      size_(size),
      credentials_(credentials),
      listener_(listener),
      endpoints_(endpoints),
      log_(log),
      outgoing_(size),
      next_cookie_(size) {
  sockets_.to_shard.resize(size);
  sockets_.from_worker.resize(size);
}

Mesh::~Mesh() = default;

MeshSockets Mesh::connect(Deadline deadline) {
  poller_.add(listener_.descriptor(), kListenerCookie, {});
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    outgoing_[peer] = std::make_unique<Outgoing>();
    outgoing_[peer]->addresses = candidate_addresses(endpoints_[rank_], endpoints_[peer]);
    start_next_address(peer, deadline);
  }
  while (!complete()) {
    const Clock::time_point now = Clock::now();
    if (now >= deadline) throw Error(ErrorKind::kPeerFailure, describe_missing());
    expire(now, deadline);
    constexpr Milliseconds kTick{100};  // the deadlines of attempts are checked at least so often
    for (const Poller::Event& event : poller_.wait(std::min<Nanoseconds>(deadline - now, kTick))) {
      if (event.cookie == kListenerCookie) {
        accept_all();
      } else if (event.cookie < size_) {
        on_outgoing(static_cast<std::uint32_t>(event.cookie), deadline);
      } else {
        on_incoming(event.cookie);
      }
    }
  }
  return std::move(sockets_);
}

bool Mesh::complete() const {
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (!sockets_.to_shard[peer].socket || !sockets_.from_worker[peer].socket) return false;
  }
  return true;
}

void Mesh::start_next_address(std::uint32_t peer, Deadline deadline) {
  Outgoing& out = *outgoing_[peer];
  out.channel.reset();
  out.connected = false;
  while (out.next < out.addresses.size()) {
    const SocketAddress& address = out.addresses[out.next++];
    const auto share = (deadline - Clock::now()) / static_cast<long>(out.addresses.size());
    out.attempt_ends = Clock::now() + std::max<Nanoseconds>(share, kMinAttemptTime);
    try {
      out.channel.emplace(begin_connect(address),
                          WorkerHandshake(credentials_, {rank_, peer, size_}));
    } catch (const Error& error) {
      out.note(error.what(), ErrorKind::kPeerFailure);
      continue;
    }
    poller_.add(out.channel->descriptor(), peer, {true, true});
    return;
  }
  const std::string trouble = out.trouble.empty() ? "it published no address" : out.trouble;
  if (out.trouble_kind == ErrorKind::kPrecondition) {
    throw Error(out.trouble_kind, "cannot reach rank " + std::to_string(peer) + ": " + trouble);
  }
  // It may be late, or its place for strangers full: another round.
  out.next = 0;
  out.attempt_ends = Clock::now() + kRetryPause;
  out.last_trouble = trouble;
  out.trouble.clear();
}

void Mesh::on_outgoing(std::uint32_t peer, Deadline deadline) {
  if (outgoing_[peer] == nullptr || !outgoing_[peer]->channel) return;
  Outgoing& out = *outgoing_[peer];
  try {
    if (!out.connected) {
      const int error = connect_error(out.channel->descriptor());
      if (error != 0) throw Error(ErrorKind::kPeerFailure, std::strerror(error));
      out.connected = true;
      out.attempt_ends = deadline;  // it is there, and may only be late with connect() itself
      out.channel->send(out.channel->handshake().hello());
    }
    out.channel->advance();
  } catch (const Error& error) {
    out.note(error.what(), error.kind());
    start_next_address(peer, deadline);
    return;
  }
  if (!out.channel->done()) {
    poller_.modify(out.channel->descriptor(), peer, {true, out.channel->wants_write()});
    return;
  }
  poller_.remove(out.channel->descriptor());
  sockets_.to_shard[peer] = out.channel->release(out.address());
  outgoing_[peer].reset();
}

void Mesh::accept_all() {
  for (;;) {
    std::string from;
    UniqueFd socket = listener_.accept(from);
    if (!socket) return;
    if (incoming_.size() >= size_ + kMaxPendingStrangers) continue;  // closes it
    const std::uint64_t cookie = next_cookie_++;
    auto incoming = std::make_unique<Incoming>(
        std::move(socket), ShardHandshake(credentials_, rank_, size_), std::move(from));
    poller_.add(incoming->channel.descriptor(), cookie, {});
    incoming_.emplace(cookie, std::move(incoming));
  }
}

void Mesh::on_incoming(std::uint64_t cookie) {
  const auto found = incoming_.find(cookie);
  if (found == incoming_.end()) return;
  Incoming& in = *found->second;
  try {
    in.channel.advance();
    if (!in.channel.done()) {
      poller_.modify(in.channel.descriptor(), cookie, {true, in.channel.wants_write()});
      return;
    }
    const std::uint32_t worker = in.channel.handshake().worker();
    if (worker == rank_ || sockets_.from_worker[worker].socket) {
      throw Error(ErrorKind::kPeerFailure, "it is connected already");
    }
    poller_.remove(in.channel.descriptor());
    sockets_.from_worker[worker] = in.channel.release(in.from);
  } catch (const Error& error) {
    if (log_) {
      log_(LogLevel::kWarning, "refused a connection from " + in.from + ": " + error.what());
    }
    const std::vector<std::byte>& refusal = in.channel.handshake().refusal();
    // One attempt: a stranger gets no more, and no buffer of ours waits for it.
    ::send(in.channel.descriptor(), refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  incoming_.erase(found);
}

void Mesh::expire(Clock::time_point now, Deadline deadline) {
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (outgoing_[peer] == nullptr || now < outgoing_[peer]->attempt_ends) continue;
    if (outgoing_[peer]->channel) outgoing_[peer]->note("no answer", ErrorKind::kPeerFailure);
    start_next_address(peer, deadline);
  }
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    it = now >= it->second->ends ? incoming_.erase(it) : std::next(it);
  }
}

std::string Mesh::describe_missing() const {
  std::string text = "connecting took longer than OMNICCL_CONNECT_TIMEOUT allows:";
  for (std::uint32_t peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::string name = " rank " + std::to_string(peer);
    if (outgoing_[peer] != nullptr) {
      text += name + " cannot be reached (" + outgoing_[peer]->describe() + ");";
    } else if (!sockets_.from_worker[peer].socket) {
      text += name + " did not connect to this rank;";
    }
  }
  text.back() = '.';
  return text;
}

}  // namespace omniccl
