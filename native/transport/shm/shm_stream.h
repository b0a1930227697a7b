// Bytes through memory that two processes of one host share, a ring for each direction. A local
// socket between them carries the memory's descriptors, a byte to wake a side that waits, and the
// news that the other process has ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "transport/byte_stream.h"
#include "transport/shm/shared_ring.h"

namespace omniccl {

class ShmStream final : public ByteStream {
 public:
  // `socket` is a connected, non-blocking local socket, on whose other end one of these begins too.
  // `ring_bytes` are for what goes out (SharedRing::create()); the peer chooses for what comes in.
  // Throws Error(kSystem) when there is no memory to share, Error(kPeerFailure) when the peer is
  // gone.
  ShmStream(UniqueFd socket, std::size_t ring_bytes);
  // Ends the connection for copies of the descriptor in forked children too, unless it runs in one.
  ~ShmStream() override;
  ShmStream(const ShmStream&) = delete;
  ShmStream& operator=(const ShmStream&) = delete;

  std::size_t write(Span<const iovec> pieces) override;
  std::size_t read(Span<const iovec> pieces) override;
  const std::string& closed_because() const override { return closed_because_; }
  void stop_reading() noexcept override { reads_ = false; }
  void stop_writing() noexcept override;
  int descriptor() const override { return socket_.get(); }
  // The socket always takes a byte; that there is room in the ring is told by a byte that comes.
  Poller::Interest interest(Poller::Interest wanted) const override {
    return {wanted.read || wanted.write, false};
  }
  // All that is there: whoever stops before has told nobody to wake it. It is never more than the
  // window of the protocol lets a peer send.
  std::size_t read_budget() const override;

 private:
  void send_ring();
  void wake_peer();
  // Takes what the socket holds: wake-ups, the descriptor of the peer's ring, the end.
  void take_messages();

  UniqueFd socket_;
  pid_t owner_;  // the process that made it
  SharedRing out_;
  std::optional<SharedRing> in_;  // once it has arrived
  bool reads_ = true;
  bool ended_ = false;  // the socket; what the peer wrote before may still be in the ring
  std::string end_;     // how
  std::string closed_because_;
};

}  // namespace omniccl
