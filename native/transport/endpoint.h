// Where a rank can be reached: plain data of a fixed size, so that it can travel in a broadcast.
//
// A local address stands for shared memory: who connects there is on the same host and in the same
// network namespace.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace omniccl {

// One IP address and port; IPv4 takes the first 4 bytes of `ip`. Or a local address, whose name
// `ip` is.
struct SocketAddress {
  static constexpr std::uint8_t kLocal = 1;

  std::uint8_t family = 0;         // 0 unused, 4, 6 or kLocal
  std::uint8_t prefix_length = 0;  // of the interface's network, in bits
  std::uint16_t port = 0;
  std::array<std::uint8_t, 16> ip{};
  std::uint32_t scope_id = 0;  // IPv6 link-local only

  bool is_local() const { return family == kLocal; }
  bool is_loopback() const;
  std::string host() const;       // "10.0.0.1", "::1", "shared memory"
  std::string to_string() const;  // "10.0.0.1:4711", "[::1]:4711", "shared memory"
};

struct Endpoint {
  static constexpr std::size_t kMaxAddresses = 16;

  // Boot id and network-namespace inode: equal on two ranks that share a loopback interface.
  std::array<std::uint8_t, 32> host_identity{};
  std::array<SocketAddress, kMaxAddresses> addresses{};  // in order of preference; unused ones last
};

// The addresses of `peer` in the order in which `local` should try them: local ones and loopback
// only (and first) where the host identity is equal, then those on a common subnet, then those for
// which `has_route`, then the rest.
std::vector<SocketAddress> candidate_addresses(
    const Endpoint& local, const Endpoint& peer,
    const std::function<bool(const SocketAddress&)>& has_route);

}  // namespace omniccl
