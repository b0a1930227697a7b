#include "transport/open_connection.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "transport/shm/shm_stream.h"
#include "transport/socket/socket_stream.h"
#include "transport/stream_connection.h"

namespace omniccl {
namespace {

// What most windows need: less would make the writer wait for the reader, more leaves the cache.
constexpr std::size_t kUsualRingBytes = std::size_t{256} * 1024;
// A rank has two connections to each other one.
constexpr std::size_t kRingBytesOfRank = std::size_t{8} * 1024 * 1024;

std::size_t ring_bytes(std::uint32_t size) {
  std::size_t bytes = kUsualRingBytes;
  while (bytes > SharedRing::kMinBytes && 2 * size * bytes > kRingBytesOfRank) bytes /= 2;
  return bytes;
}

}  // namespace

std::string why_no_shared_memory() {
  try {
    static_cast<void>(SharedRing::create(SharedRing::kMinBytes));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Connection> open_connection(PeerSocket peer, const std::string& name,
                                            std::uint32_t size, std::uint64_t max_payload_bytes,
                                            const std::string& congestion_control) {
  std::unique_ptr<ByteStream> stream;
  if (is_local_socket(peer.socket.get())) {
    stream = std::make_unique<ShmStream>(std::move(peer.socket), ring_bytes(size));
  } else {
    set_data_options(peer.socket.get(), congestion_control);
    stream = std::make_unique<SocketStream>(std::move(peer.socket));
  }
  return std::make_unique<StreamConnection>(std::move(stream), name + " (" + peer.address + ")",
                                            max_payload_bytes, peer.bytes_sent,
                                            peer.bytes_received);
}

}  // namespace omniccl
