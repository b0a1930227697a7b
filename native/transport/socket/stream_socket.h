// Opening sockets, TCP and local ones: listeners, and the connections to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/span.h"
#include "base/unique_fd.h"
#include "transport/endpoint.h"

namespace omniccl {

// Where a rank may listen and connect; empty fields leave the choice to us.
struct NetworkOptions {
  bool loopback_only = false;    // all peers are on this host
  std::string interface;         // "eth0": this interface alone
  std::uint16_t first_port = 0;  // 0: any that the system chooses
  std::uint16_t last_port = 0;
};

// A listening socket and where it can be reached.
class Listener {
 public:
  // A rank's: on loopback alone, on an address of one interface, or on all interfaces, IPv4 and
  // IPv6; the endpoint names the addresses of those that are up. Throws Error(kPrecondition) for an
  // interface without an address and when all ports of the range are taken; else Error(kSystem).
  Listener(const NetworkOptions& options, int backlog);
  // On one address: a daemon's, or a local one. Throws Error(kPrecondition), naming it, when it
  // cannot be had.
  Listener(const SocketAddress& address, int backlog);

  const Endpoint& endpoint() const { return endpoint_; }
  // What it is bound to.
  SocketAddress address() const;
  int descriptor() const { return socket_.get(); }
  // The next connection, non-blocking; an empty descriptor when there is none. `from` gets the
  // address of the other side. Throws Error(kSystem) when the system has no resources for it.
  UniqueFd accept(SocketAddress& from) const;

 private:
  UniqueFd socket_;
  Endpoint endpoint_;
};

// The addresses of an interface that is up, without a port. Throws Error(kPrecondition), naming the
// interfaces that there are, when it has none.
std::vector<SocketAddress> interface_addresses(const std::string& interface);

// Whether one of this host's interfaces has this address.
bool is_own_address(const SocketAddress& address);

// Begins to connect without waiting; to an IP address from that of `sources` which has the same
// family; empty: the system chooses. Throws Error(kSystem) where the system refuses at once.
UniqueFd begin_connect(const SocketAddress& address, Span<const SocketAddress> sources = {});

// What became of a connection attempt whose socket is writable: 0, or an errno value.
int connect_error(int socket);

// Whether it is a local socket.
bool is_local_socket(int socket);

// Whether this host knows a way to `address`; asks the kernel, sends nothing.
bool has_route(const SocketAddress& address);

// How a data connection finds its rate: the name of one of the kernel's algorithms; "system": its
// default; "auto": that, but between hosts not BBR, which measures a path as if it used it alone.
// Here all ranks send to a shard at once, at most a window each (docs/performance.md).
inline constexpr const char* kAutoCongestionControl = "auto";

// Options of every data connection over TCP: no Nagle delay, keep-alive between operations,
// congestion control. Throws Error(kPrecondition), naming what this process may use, for an
// algorithm that it may not.
void set_data_options(int socket, const std::string& congestion_control = kAutoCongestionControl);

}  // namespace omniccl
