#include "transport/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>

namespace omniccl {
namespace {

bool same_prefix(const SocketAddress& a, const SocketAddress& b) {
  if (a.family != b.family || a.prefix_length == 0) return false;
  unsigned bits = a.prefix_length;
  for (std::size_t i = 0; bits != 0 && i < a.ip.size(); ++i) {
    const unsigned part = std::min(bits, 8U);
    const auto mask = static_cast<unsigned>(0xFF00U >> part) & 0xFFU;
    if (((a.ip[i] ^ b.ip[i]) & mask) != 0) return false;
    bits -= part;
  }
  return true;
}

}  // namespace

bool SocketAddress::is_loopback() const {
  if (family == 4) return ip[0] == 127;
  constexpr std::array<std::uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == 6 && ip == kLoopback6;
}

std::string SocketAddress::host() const {
  if (is_local()) return "shared memory";
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family == 6 ? AF_INET6 : AF_INET, ip.data(), text.data(), text.size());
  return text.data();
}

std::string SocketAddress::to_string() const {
  if (is_local()) return host();
  return (family == 6 ? "[" + host() + "]" : host()) + ":" + std::to_string(port);
}

std::vector<SocketAddress> candidate_addresses(
    const Endpoint& local, const Endpoint& peer,
    const std::function<bool(const SocketAddress&)>& has_route) {
  const bool same_host = local.host_identity == peer.host_identity;
  const auto preference = [&](const SocketAddress& address) {
    if (address.is_local()) return 0;
    if (address.is_loopback()) return 1;
    const bool shared = std::any_of(
        local.addresses.begin(), local.addresses.end(),
        [&](const SocketAddress& own) { return !own.is_loopback() && same_prefix(own, address); });
    if (shared) return 2;
    return has_route(address) ? 3 : 4;
  };
  std::vector<SocketAddress> candidates;
  for (const SocketAddress& address : peer.addresses) {
    const bool host_only = address.is_local() || address.is_loopback();
    if (address.family == 0 || (host_only && !same_host)) continue;
    candidates.push_back(address);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const SocketAddress& a, const SocketAddress& b) {
                     return preference(a) < preference(b);
                   });
  return candidates;
}

}  // namespace omniccl
