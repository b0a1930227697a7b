// SocketAddress as the system's calls take and give it.
#pragma once

#include <sys/socket.h>

#include "transport/endpoint.h"

namespace omniccl {

// `size` gets how much of the result counts.
sockaddr_storage to_system(const SocketAddress& address, socklen_t& size);

// The family stays 0 for what is neither IP nor local. An IPv4 address inside IPv6 becomes IPv4. A
// local address comes without its name.
SocketAddress from_system(const sockaddr* address);

}  // namespace omniccl
