#include "transport/socket/system_address.h"

#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <string_view>

namespace omniccl {
namespace {

// A name in no file system: it is gone with the socket, and there is nothing to clean up.
socklen_t write_local(const SocketAddress& address, sockaddr_un& un) {
  constexpr std::string_view kPrefix("\0omniccl.", 9);
  constexpr std::string_view kDigits = "0123456789abcdef";
  un.sun_family = AF_UNIX;
  char* end = un.sun_path + kPrefix.copy(un.sun_path, kPrefix.size());
  for (const std::uint8_t byte : address.ip) {
    *end++ = kDigits[byte >> 4U];
    *end++ = kDigits[byte & 0xFU];
  }
  return static_cast<socklen_t>(end - reinterpret_cast<const char*>(&un));
}

}  // namespace

sockaddr_storage to_system(const SocketAddress& address, socklen_t& size) {
  sockaddr_storage storage{};
  if (address.is_local()) {
    size = write_local(address, reinterpret_cast<sockaddr_un&>(storage));
  } else if (address.family == 4) {
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

SocketAddress from_system(const sockaddr* storage) {
  SocketAddress address;
  if (storage->sa_family == AF_UNIX) {
    address.family = SocketAddress::kLocal;  // whose name nobody asks the system for
  } else if (storage->sa_family == AF_INET) {
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

}  // namespace omniccl
