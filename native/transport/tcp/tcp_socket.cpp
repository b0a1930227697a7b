#include "transport/tcp/tcp_socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/error.h"

namespace omniccl {
namespace {

sockaddr_storage to_system(const SocketAddress& address, socklen_t& size) {
  sockaddr_storage storage{};
  if (address.family == 4) {
    auto& in = reinterpret_cast<sockaddr_in&>(storage);
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.ip.data(), sizeof in.sin_addr);
    size = sizeof in;
  } else {
    auto& in = reinterpret_cast<sockaddr_in6&>(storage);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    in.sin6_scope_id = address.scope_id;
    std::memcpy(&in.sin6_addr, address.ip.data(), sizeof in.sin6_addr);
    size = sizeof in;
  }
  return storage;
}

// family stays 0 for anything but IPv4 and IPv6. An IPv4 address inside IPv6 becomes IPv4.
SocketAddress from_system(const sockaddr* storage) {
  SocketAddress address;
  if (storage->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(storage);
    address.family = 4;
    address.port = ntohs(in->sin_port);
    std::memcpy(address.ip.data(), &in->sin_addr, sizeof in->sin_addr);
  } else if (storage->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(storage);
    address.port = ntohs(in->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr)) {
      address.family = 4;
      std::memcpy(address.ip.data(), in->sin6_addr.s6_addr + 12, 4);
    } else {
      address.family = 6;
      address.scope_id = in->sin6_scope_id;
      std::memcpy(address.ip.data(), &in->sin6_addr, sizeof in->sin6_addr);
    }
  }
  return address;
}

std::uint8_t prefix_length(const sockaddr* netmask) {
  if (netmask == nullptr) return 0;
  const SocketAddress mask = [&] {
    sockaddr_storage storage{};
    const std::size_t size =
        netmask->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&storage, netmask, size);
    return from_system(reinterpret_cast<const sockaddr*>(&storage));
  }();
  unsigned bits = 0;
  for (const std::uint8_t byte : mask.ip) bits += static_cast<unsigned>(__builtin_popcount(byte));
  return static_cast<std::uint8_t>(bits);
}

// Addresses of the interfaces that are up, loopback last.
void list_addresses(std::uint16_t port, bool with_ipv6, Endpoint& endpoint) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::size_t count = 0;
  for (const bool loopback : {false, true}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
      SocketAddress address = from_system(entry->ifa_addr);
      if (address.family == 0 || (address.family == 6 && !with_ipv6)) continue;
      if (address.is_loopback() != loopback || count == endpoint.addresses.size()) continue;
      address.port = port;
      address.prefix_length = prefix_length(entry->ifa_netmask);
      endpoint.addresses[count++] = address;
    }
  }
}

// Two processes share a loopback interface when boot id and network namespace are the same.
std::array<std::uint8_t, 32> host_identity() {
  std::array<std::uint8_t, 32> identity{};
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  boot_id.erase(std::remove(boot_id.begin(), boot_id.end(), '-'), boot_id.end());
  std::memcpy(identity.data(), boot_id.data(), std::min<std::size_t>(boot_id.size(), 24));
  struct stat status {};
  if (::stat("/proc/self/ns/net", &status) == 0) {
    const std::uint64_t inode = status.st_ino;
    std::memcpy(identity.data() + 24, &inode, sizeof inode);
  }
  return identity;
}

UniqueFd open_socket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw system_error("socket", errno);
  return socket;
}

// Dual-stack where the system has IPv6, else IPv4.
UniqueFd open_any(bool& with_ipv6) {
  with_ipv6 = true;
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int off = 0;
  if (socket && ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0) return socket;
  }
  with_ipv6 = false;
  socket = open_socket(AF_INET);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
    throw system_error("bind", errno);
  }
  return socket;
}

UniqueFd open_loopback() {
  UniqueFd socket = open_socket(AF_INET);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) != 0) {
    throw system_error("bind to 127.0.0.1", errno);
  }
  return socket;
}

SocketAddress local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    throw system_error("getsockname", errno);
  }
  return from_system(reinterpret_cast<const sockaddr*>(&storage));
}

}  // namespace

TcpListener::TcpListener(bool loopback_only, int backlog) {
  endpoint_.host_identity = host_identity();
  bool with_ipv6 = false;
  socket_ = loopback_only ? open_loopback() : open_any(with_ipv6);
  if (::listen(socket_.get(), backlog) != 0) throw system_error("listen", errno);
  const SocketAddress bound = local_address(socket_.get());
  if (loopback_only) {
    endpoint_.addresses[0] = bound;
  } else {
    list_addresses(bound.port, with_ipv6, endpoint_);
  }
}

UniqueFd TcpListener::accept(std::string& from) const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  UniqueFd socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) {
    from = from_system(reinterpret_cast<const sockaddr*>(&storage)).to_string();
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    throw system_error("accept", errno);
  }
  // Anything else is the fault of that one connection, or says that there is none (accept(2)).
  return socket;
}

UniqueFd begin_connect(const SocketAddress& address) {
  UniqueFd socket = open_socket(address.family == 6 ? AF_INET6 : AF_INET);
  socklen_t size = 0;
  const sockaddr_storage storage = to_system(address, size);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0 &&
      errno != EINPROGRESS) {
    throw system_error("connect to " + address.to_string(), errno);
  }
  return socket;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

void set_data_options(int socket) {
  const int on = 1;
  const int idle_seconds = 60;
  const int interval_seconds = 10;
  const int probes = 6;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds,
                   sizeof interval_seconds) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes) != 0) {
    throw system_error("setsockopt", errno);
  }
}

}  // namespace omniccl
