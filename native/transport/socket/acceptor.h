// Takes connections on listening sockets and finds out who they are, at a bounded cost for
// strangers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "protocol/handshake.h"
#include "transport/poller.h"
#include "transport/socket/handshake_channel.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {

class Acceptor {
 public:
  // What may be open without authentication at a time; more is closed at once.
  struct Limits {
    std::size_t connections = 64;
    std::size_t connections_of_address = 64;
  };
  // Gets each connection that is authenticated and admitted.
  using OnPeer = std::function<void(const Hello&, PeerSocket)>;

  // Registers with `poller` under cookies from first_cookie on. All references must outlive it.
  Acceptor(Poller& poller, std::uint64_t first_cookie, std::vector<const Listener*> listeners,
           const SecretKey& key, Admission& admission, const Limits& limits, OnPeer on_peer,
           LogSink log);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  void on_event(std::uint64_t cookie);
  // Closes what took too long. To be called ten times a second at least.
  void expire(Clock::time_point now);

 private:
  struct Incoming;

  void accept_all(const Listener& listener);
  void pause();
  void resume();
  void drop(std::map<std::uint64_t, std::unique_ptr<Incoming>>::iterator incoming);
  void warn(const std::string& text);

  Poller& poller_;
  std::uint64_t first_cookie_;  // those of the listeners, then those of connections
  std::uint64_t next_cookie_;
  std::vector<const Listener*> listeners_;
  const SecretKey& key_;
  Admission& admission_;
  Limits limits_;
  OnPeer on_peer_;
  LogSink log_;
  std::map<std::uint64_t, std::unique_ptr<Incoming>> incoming_;  // by cookie
  std::map<std::string, std::size_t> of_address_;  // how many of incoming_, by IP address
  bool paused_ = false;
  Clock::time_point paused_until_;
  Clock::time_point next_warning_;
  std::uint64_t warnings_left_out_ = 0;
};

}  // namespace omniccl
