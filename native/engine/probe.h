// Asks an aggregator whether it would let us in.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "protocol/handshake.h"
#include "transport/socket/host_port.h"

namespace omniccl {

// Returns the address at which it answered and proved that it has the key. Throws Error, saying for
// each address what was wrong, when it does not within `timeout`. `interrupted` is as in
// CommunicatorConfig.
std::string probe_aggregator(const HostPort& place, const SecretKey& key, Milliseconds timeout,
                             const std::function<void()>& interrupted = {});

}  // namespace omniccl
