// From an authenticated socket to the connection that carries frames: over shared memory where it
// was reached at a local address, over the socket itself elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/socket/handshake_channel.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {

// Why memory cannot be shared here, for messages; empty where it can. Asked before anybody is told
// a local address.
std::string why_no_shared_memory();

// `name` is the peer's ("rank 2"), `size` the number of ranks, by which memory to share is divided:
// at most 8 MiB a rank. Throws Error(kSystem) when the system gives no memory, Error(kPrecondition)
// for a congestion control that it does not have, Error(kPeerFailure) when the peer is gone.
std::unique_ptr<Connection> open_connection(
    PeerSocket peer, const std::string& name, std::uint32_t size, std::uint64_t max_payload_bytes,
    const std::string& congestion_control = kAutoCongestionControl);

}  // namespace omniccl
