// Connects a rank to all its shards and, where shards are embedded, its shard to all other workers;
// all of them authenticated. Used once, during Communicator::connect().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "protocol/handshake.h"
#include "transport/endpoint.h"
#include "transport/poller.h"
#include "transport/socket/connector.h"
#include "transport/socket/handshake_channel.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {

struct MeshSockets {
  std::vector<PeerSocket> to_shard;     // in the order of the targets
  std::vector<PeerSocket> from_worker;  // [rank], empty for those that do not connect
};

class Mesh final : private Admission {
 public:
  // `hello` is what this rank says of itself; its shard, if it listens, has the rank's number.
  // There are no `listeners` where shards are dedicated. `interrupted` is called at every tick of a
  // wait, gives up when it throws, and may be empty. All references must outlive it.
  Mesh(const Hello& hello, const SecretKey& key, std::vector<const Listener*> listeners,
       const LogSink& log, const std::function<void()>& interrupted);

  // Tries the addresses of each target in turn, again and again. Throws Error(kPeerFailure), naming
  // who is missing and why, at `deadline`; Error(kPrecondition) as soon as a target refuses.
  MeshSockets connect(const std::vector<ConnectTarget>& targets, std::vector<SocketAddress> sources,
                      Deadline deadline);

 private:
  bool knows(const Hello& hello) const override;
  void admit(const Hello& hello) override;

  bool complete(const Connector& connector) const;
  std::string describe_missing(const Connector& connector,
                               const std::vector<ConnectTarget>& targets) const;

  Hello hello_;
  const SecretKey& key_;
  std::vector<const Listener*> listeners_;
  const LogSink& log_;
  const std::function<void()>& interrupted_;
  std::vector<PeerSocket> from_worker_;  // [rank]
};

}  // namespace omniccl
