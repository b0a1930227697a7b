// The bytes of a connected stream socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_fd.h"
#include "transport/byte_stream.h"

namespace omniccl {

class SocketStream final : public ByteStream {
 public:
  // `socket` is connected and non-blocking.
  explicit SocketStream(UniqueFd socket);
  // Ends the connection for copies of the descriptor in forked children too, unless it runs in one.
  ~SocketStream() override;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  std::size_t write(Span<const iovec> pieces) override;
  std::size_t read(Span<const iovec> pieces) override;
  const std::string& closed_because() const override { return closed_because_; }
  void stop_reading() noexcept override {}
  void stop_writing() noexcept override;
  int descriptor() const override { return socket_.get(); }
  Poller::Interest interest(Poller::Interest wanted) const override { return wanted; }
  std::size_t read_budget() const override;

 private:
  UniqueFd socket_;
  pid_t owner_;  // the process that made it
  std::string closed_because_;
};

}  // namespace omniccl
