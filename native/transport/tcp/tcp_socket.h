// Opening TCP sockets: the listener of a rank, and the connections to it.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "transport/endpoint.h"

namespace omniccl {

// A listening socket on a port that the system chooses, and where it can be reached.
class TcpListener {
 public:
  // `loopback_only`: 127.0.0.1 alone. Otherwise all interfaces, IPv4 and IPv6; the endpoint names
  // the addresses of those that are up. Throws Error(kSystem).
  explicit TcpListener(bool loopback_only, int backlog);

  const Endpoint& endpoint() const { return endpoint_; }
  int descriptor() const { return socket_.get(); }
  // The next connection, non-blocking; an empty descriptor when there is none. `from` gets the
  // address of the other side.
  UniqueFd accept(std::string& from) const;

 private:
  UniqueFd socket_;
  Endpoint endpoint_;
};

// Begins to connect without waiting. Throws Error(kSystem) where the system refuses at once.
UniqueFd begin_connect(const SocketAddress& address);

// What became of a connection attempt whose socket is writable: 0, or an errno value.
int connect_error(int socket);

// Options of every data connection: no Nagle delay, keep-alive between operations.
void set_data_options(int socket);

}  // namespace omniccl
