// "HOST:PORT" as people write it: a name, an IPv4 address, or an IPv6 address in brackets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/endpoint.h"

namespace omniccl {

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  std::string to_string() const;
};

// Throws Error(kPrecondition), quoting `text`, when it is none.
HostPort parse_host_port(std::string_view text);

// The addresses of `place`, as the system resolves its name, for connecting or for listening ("*"
// or an empty host: all interfaces). At least one. Throws Error(kPrecondition), naming the host,
// when there is none.
std::vector<SocketAddress> resolve(const HostPort& place, bool for_listening);

}  // namespace omniccl
