#include "engine/mesh.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "transport/socket/acceptor.h"

namespace omniccl {
namespace {

// Strangers beyond the ranks themselves that may be open at a time.
constexpr std::size_t kMaxPendingStrangers = 64;

}  // namespace

Mesh::Mesh(const Hello& hello, const SecretKey& key, std::vector<const Listener*> listeners,
           const LogSink& log, const std::function<void()>& interrupted)
    : hello_(hello),
      key_(key),
      listeners_(std::move(listeners)),
      log_(log),
      interrupted_(interrupted),
      from_worker_(hello.terms.size) {}

MeshSockets Mesh::connect(const std::vector<ConnectTarget>& targets,
                          std::vector<SocketAddress> sources, Deadline deadline) {
  Poller poller;
  Connector connector(poller, 0, key_, targets, std::move(sources), deadline);
  std::optional<Acceptor> acceptor;
  if (!listeners_.empty()) {
    const std::size_t most = hello_.terms.size + kMaxPendingStrangers;
    acceptor.emplace(
        poller, targets.size(), listeners_, key_, static_cast<Admission&>(*this),
        Acceptor::Limits{most, most},
        [this](const Hello& peer, PeerSocket socket) {
          from_worker_[peer.worker] = std::move(socket);
        },
        log_);
  }
  connector.start();
  while (!complete(connector)) {
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      throw Error(ErrorKind::kPeerFailure, describe_missing(connector, targets));
    }
    connector.expire(now);
    if (acceptor) acceptor->expire(now);
    constexpr Milliseconds kTick{100};  // what expire() asks for
    const auto events = poller.wait(std::min<Nanoseconds>(deadline - now, kTick));
    if (events.empty() && interrupted_) interrupted_();
    for (const Poller::Event& event : events) {
      if (event.cookie < targets.size()) {
        connector.on_event(event.cookie);
      } else {
        acceptor->on_event(event.cookie);
      }
    }
  }
  return {connector.release(), std::move(from_worker_)};
}

bool Mesh::knows(const Hello& hello) const {
  return hello.session_id == hello_.session_id && hello.generation == hello_.generation;
}

void Mesh::admit(const Hello& hello) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorKind::kPeerFailure, text); };
  if (const auto text = difference(hello.terms, hello_.terms)) {
    refuse("the ranks do not agree: this rank and it have " + *text);
  }
  if (hello.role != Hello::Role::kWorker || hello.shard != hello_.worker ||
      hello.worker >= hello_.terms.size || hello.worker == hello_.worker) {
    refuse("it does not expect rank " + std::to_string(hello.worker) + " for shard " +
           std::to_string(hello.shard));
  }
  if (from_worker_[hello.worker].socket) {
    refuse("it is connected to a rank " + std::to_string(hello.worker) + " already");
  }
}

bool Mesh::complete(const Connector& connector) const {
  if (!connector.complete()) return false;
  if (listeners_.empty()) return true;
  for (std::uint32_t rank = 0; rank < from_worker_.size(); ++rank) {
    if (rank != hello_.worker && !from_worker_[rank].socket) return false;
  }
  return true;
}

std::string Mesh::describe_missing(const Connector& connector,
                                   const std::vector<ConnectTarget>& targets) const {
  std::string text = "connecting took longer than OMNICCL_CONNECT_TIMEOUT allows:";
  for (std::size_t target = 0; target < targets.size(); ++target) {
    if (connector.connected(target)) continue;
    text += " " + targets[target].name + " cannot be reached (" + connector.trouble(target) + ");";
  }
  for (std::uint32_t rank = 0; !listeners_.empty() && rank < from_worker_.size(); ++rank) {
    if (rank == hello_.worker || from_worker_[rank].socket) continue;
    text += " rank " + std::to_string(rank) + " did not connect to this rank;";
  }
  text.back() = '.';
  return text;
}

}  // namespace omniccl
