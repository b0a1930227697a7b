// Local addresses: how two processes of one host find each other for shared memory.
#pragma once

#include <vector>

#include "transport/endpoint.h"

namespace omniccl {

// One that nobody else has, for a rank: it travels to its peers in the rank's endpoint.
SocketAddress random_local_address();

// That of a daemon which listens at an IP address and port: both sides can work it out.
SocketAddress local_address_of(const SocketAddress& listens_at);

// Where a daemon at an IP address and port may be found on this host, the likeliest first; nothing
// when the address is another host's.
std::vector<SocketAddress> local_ways_to(const SocketAddress& daemon);

}  // namespace omniccl
