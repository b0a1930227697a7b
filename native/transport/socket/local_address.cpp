#include "transport/socket/local_address.h"

#include <algorithm>

#include "protocol/sodium.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {
namespace {

SocketAddress any_address(std::uint8_t family, std::uint16_t port) {
  SocketAddress address;
  address.family = family;
  address.port = port;
  return address;
}

}  // namespace

SocketAddress random_local_address() {
  ensure_sodium();
  SocketAddress address;
  address.family = SocketAddress::kLocal;
  ::randombytes_buf(address.ip.data(), address.ip.size());
  return address;
}

SocketAddress local_address_of(const SocketAddress& listens_at) {
  ensure_sodium();
  std::array<std::uint8_t, 19> place{};
  place[0] = listens_at.family;
  place[1] = static_cast<std::uint8_t>(listens_at.port >> 8U);
  place[2] = static_cast<std::uint8_t>(listens_at.port & 0xFFU);
  std::copy(listens_at.ip.begin(), listens_at.ip.end(), place.begin() + 3);
  SocketAddress address;
  address.family = SocketAddress::kLocal;
  ::crypto_generichash(address.ip.data(), address.ip.size(), place.data(), place.size(), nullptr,
                       0);
  return address;
}

std::vector<SocketAddress> local_ways_to(const SocketAddress& daemon) {
  if (!daemon.is_loopback() && !is_own_address(daemon)) return {};
  std::vector<SocketAddress> ways{local_address_of(daemon),
                                  local_address_of(any_address(6, daemon.port))};
  if (daemon.family == 4) ways.push_back(local_address_of(any_address(4, daemon.port)));
  return ways;
}

}  // namespace omniccl
