// Reaches a list of peers, each at one of several addresses, and proves to them who we are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/span.h"
#include "protocol/handshake.h"
#include "transport/endpoint.h"
#include "transport/poller.h"
#include "transport/socket/handshake_channel.h"

namespace omniccl {

struct ConnectTarget {
  std::string name;                      // "rank 2", for messages
  std::vector<SocketAddress> addresses;  // in the order to try
  Hello hello;
};

class Connector {
 public:
  // Registers with `poller` under the cookies first_cookie to first_cookie + targets.size() - 1.
  // Connects from one of `sources`, or from wherever the system likes. `poller` and `key` must
  // outlive it.
  Connector(Poller& poller, std::uint64_t first_cookie, const SecretKey& key,
            std::vector<ConnectTarget> targets, std::vector<SocketAddress> sources,
            Deadline deadline);
  ~Connector();

  // Begins the first attempts. All of these throw Error(kPrecondition) as soon as a peer refuses
  // the handshake and none of its other addresses does better.
  void start();
  void on_event(std::uint64_t cookie);
  // Ends the attempts that take too long. To be called ten times a second at least.
  void expire(Clock::time_point now);

  bool complete() const { return open_ == 0; }
  bool connected(std::size_t target) const { return attempts_[target] == nullptr; }
  // What is known to be wrong with a target that is not connected.
  std::string trouble(std::size_t target) const;
  // The sockets in the order of the targets, once complete().
  std::vector<PeerSocket> release() { return std::move(sockets_); }

 private:
  class Attempt;

  void start_next_address(std::size_t target);

  Poller& poller_;
  std::uint64_t first_cookie_;
  const SecretKey& key_;
  std::vector<ConnectTarget> targets_;
  std::vector<SocketAddress> sources_;
  Deadline deadline_;
  std::vector<std::unique_ptr<Attempt>> attempts_;  // [target]; null once connected
  std::vector<PeerSocket> sockets_;                 // [target]
  std::size_t open_;                                // targets that are not connected
};

}  // namespace omniccl
