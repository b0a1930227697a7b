#include "transport/socket/host_port.h"

#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/error.h"
#include "transport/socket/system_address.h"

namespace omniccl {

std::string HostPort::to_string() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

HostPort parse_host_port(std::string_view text) {
  const auto malformed_place = [&] {
    return Error(ErrorKind::kPrecondition,
                 "'" + std::string(text) +
                     "' is not HOST:PORT, such as nic1:4711, 10.0.0.5:4711 or [fd00::5]:4711");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) throw malformed_place();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    throw malformed_place();  // which of the colons would be the port's?
  }
  HostPort place;
  place.host = host;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), place.port);
  if (error != std::errc() || end != port.data() + port.size()) throw malformed_place();
  return place;
}

std::vector<SocketAddress> resolve(const HostPort& place, bool for_listening) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (for_listening ? AI_PASSIVE : 0);
  const bool any = for_listening && (place.host.empty() || place.host == "*");
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(any ? nullptr : place.host.c_str(),
                                  std::to_string(place.port).c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  if (error != 0) {
    throw Error(ErrorKind::kPrecondition, "the host name '" + place.host + "' of " +
                                              place.to_string() +
                                              " cannot be resolved: " + ::gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const SocketAddress address = from_system(entry->ai_addr);
    if (address.family != 0) addresses.push_back(address);
  }
  // All interfaces: a socket for IPv6 serves IPv4 too.
  if (any) std::reverse(addresses.begin(), addresses.end());
  return addresses;
}

}  // namespace omniccl
