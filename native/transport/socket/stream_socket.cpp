#include "transport/socket/stream_socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "transport/socket/system_address.h"

namespace omniccl {
namespace {

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

// Another host has no use for an address that holds on one link only.
bool is_usable(const SocketAddress& address) {
  const bool link_local6 =
      address.family == 6 && address.ip[0] == 0xFE && (address.ip[1] & 0xC0) == 0x80;
  return address.family != 0 && !link_local6;
}

// Every usable address of every interface that is up, with the interface's name.
std::vector<std::pair<std::string, SocketAddress>> usable_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<std::pair<std::string, SocketAddress>> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    SocketAddress address = from_system(entry->ifa_addr);
    if (!is_usable(address)) continue;
    address.prefix_length = prefix_length(entry->ifa_netmask);
    addresses.emplace_back(entry->ifa_name, address);
  }
  return addresses;
}

// The addresses of all interfaces, loopback last.
void list_addresses(std::uint16_t port, bool with_ipv6, Endpoint& endpoint) {
  std::size_t count = 0;
  for (const bool loopback : {false, true}) {
    for (auto& [interface, address] : usable_addresses()) {
      if (address.family == 6 && !with_ipv6) continue;
      if (address.is_loopback() != loopback || count == endpoint.addresses.size()) continue;
      endpoint.addresses[count] = address;
      endpoint.addresses[count++].port = port;
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

int system_family(const SocketAddress& address) {
  if (address.is_local()) return AF_UNIX;
  return address.family == 6 ? AF_INET6 : AF_INET;
}

UniqueFd open_socket(const SocketAddress& address) {
  UniqueFd socket(::socket(system_family(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw system_error("socket", errno);
  return socket;
}

// Whether the bind succeeded; errno tells why not.
bool bind_to(int socket, const SocketAddress& address) {
  socklen_t size = 0;
  const sockaddr_storage storage = to_system(address, size);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&storage), size) == 0;
}

// A socket for IPv6 that takes IPv4 connections too; nothing where the system has no IPv6.
UniqueFd open_dual_stack() {
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int off = 0;
  if (socket && ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
    socket.reset();
  }
  return socket;
}

void set_reuse_address(int socket) {
  const int on = 1;  // a port comes back from connections that are long over
  if (::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    throw system_error("setsockopt", errno);
  }
}

// A socket that listens on `address`, or nothing, with errno set, when it cannot.
UniqueFd try_listen(const SocketAddress& address, int backlog) {
  const bool any6 = address.family == 6 && address.ip == decltype(address.ip){};
  UniqueFd socket = any6 ? open_dual_stack() : open_socket(address);
  if (!socket) return socket;
  if (!address.is_local()) set_reuse_address(socket.get());
  if (!bind_to(socket.get(), address) || ::listen(socket.get(), backlog) != 0) socket.reset();
  return socket;
}

// What a rank would listen on, the best first, without a port.
std::vector<SocketAddress> listen_choices(const NetworkOptions& options) {
  if (!options.interface.empty()) return interface_addresses(options.interface);
  SocketAddress any4;
  any4.family = 4;
  SocketAddress any6;
  any6.family = 6;
  SocketAddress loopback = any4;
  loopback.ip = {127, 0, 0, 1};
  if (options.loopback_only) return {loopback};
  return {any6, any4};
}

UniqueFd listen_in_range(const NetworkOptions& options, int backlog) {
  const std::vector<SocketAddress> choices = listen_choices(options);
  int error = 0;
  for (std::uint32_t port = options.first_port; port <= options.last_port; ++port) {
    for (SocketAddress address : choices) {
      address.port = static_cast<std::uint16_t>(port);
      UniqueFd socket = try_listen(address, backlog);
      if (socket) return socket;
      error = errno;
    }
  }
  if (options.first_port == 0 || error != EADDRINUSE) throw system_error("listen", error);
  throw Error(ErrorKind::kPrecondition,
              "all ports of OMNICCL_PORT_RANGE (" + std::to_string(options.first_port) + " to " +
                  std::to_string(options.last_port) +
                  ") are taken; each rank of a host needs one for each of its process sets");
}

SocketAddress local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    throw system_error("getsockname", errno);
  }
  return from_system(reinterpret_cast<const sockaddr*>(&storage));
}

bool use_congestion_control(int socket, const std::string& name) {
  const auto size = static_cast<socklen_t>(name.size());
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), size) == 0;
}

std::string congestion_control_of(int socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  auto size = static_cast<socklen_t>(name.size());
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return {name.data(), ::strnlen(name.data(), size)};
}

bool is_to_loopback(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) == 0 &&
         from_system(reinterpret_cast<const sockaddr*>(&storage)).is_loopback();
}

void choose_congestion_control(int socket, const std::string& wanted) {
  if (wanted == "system") return;
  if (wanted == kAutoCongestionControl) {
    if (congestion_control_of(socket) != "bbr" || is_to_loopback(socket)) return;
    // Not every process may use every one: what it may not, it goes without.
    static_cast<void>(use_congestion_control(socket, "cubic") ||
                      use_congestion_control(socket, "reno"));
    return;
  }
  if (use_congestion_control(socket, wanted)) return;
  std::string allowed;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_allowed_congestion_control"), allowed);
  throw Error(ErrorKind::kPrecondition, "OMNICCL_CONGESTION_CONTROL is " + wanted +
                                            ", which this process may not use here; allowed: auto, "
                                            "system, " +
                                            allowed);
}

}  // namespace

std::vector<SocketAddress> interface_addresses(const std::string& interface) {
  std::vector<SocketAddress> addresses;
  std::set<std::string> names;
  for (const auto& [name, address] : usable_addresses()) {
    names.insert(name);
    if (name == interface) addresses.push_back(address);
  }
  if (!addresses.empty()) return addresses;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw Error(
      ErrorKind::kPrecondition,
      "OMNICCL_IFACE is " + interface +
          ", which is no interface of this host that is up and has an address; there are: " + list);
}

bool is_own_address(const SocketAddress& address) {
  const auto all = usable_addresses();
  return std::any_of(all.begin(), all.end(), [&](const auto& own) {
    return own.second.family == address.family && own.second.ip == address.ip;
  });
}

Listener::Listener(const NetworkOptions& options, int backlog)
    : socket_(listen_in_range(options, backlog)) {
  endpoint_.host_identity = host_identity();
  const SocketAddress bound = address();
  const bool any = bound.ip == decltype(bound.ip){};
  if (any) {
    list_addresses(bound.port, bound.family == 6, endpoint_);
  } else {
    endpoint_.addresses[0] = bound;
    for (const auto& [interface, address] : usable_addresses()) {
      if (address.ip == bound.ip) endpoint_.addresses[0].prefix_length = address.prefix_length;
    }
  }
}

Listener::Listener(const SocketAddress& address, int backlog)
    : socket_(try_listen(address, backlog)) {
  if (!socket_) {
    throw Error(ErrorKind::kPrecondition,
                "cannot listen on " + address.to_string() + ": " + std::strerror(errno));
  }
}

SocketAddress Listener::address() const { return local_address(socket_.get()); }

UniqueFd Listener::accept(SocketAddress& from) const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  UniqueFd socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) {
    from = from_system(reinterpret_cast<const sockaddr*>(&storage));
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    throw system_error("accept", errno);
  }
  // Anything else is the fault of that one connection, or says that there is none (accept(2)).
  return socket;
}

UniqueFd begin_connect(const SocketAddress& address, Span<const SocketAddress> sources) {
  UniqueFd socket = open_socket(address);
  if (!sources.empty() && !address.is_local()) {
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const SocketAddress& one) {
      return one.family == address.family;
    });
    if (source == sources.end() || !bind_to(socket.get(), *source)) {
      throw Error(ErrorKind::kSystem, "OMNICCL_IFACE has no address to reach it from");
    }
  }
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

bool is_local_socket(int socket) { return local_address(socket).is_local(); }

bool has_route(const SocketAddress& address) {
  // Connecting a datagram socket chooses the route and sends nothing.
  const UniqueFd socket(::socket(system_family(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return false;
  socklen_t size = 0;
  const sockaddr_storage storage = to_system(address, size);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) == 0;
}

void set_data_options(int socket, const std::string& congestion_control) {
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
  choose_congestion_control(socket, congestion_control);
}

}  // namespace omniccl
