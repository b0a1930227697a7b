#include "transport/socket/socket_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace omniccl {
namespace {

constexpr std::size_t kReadBudget = 1024 * 1024;

std::string unreachable(int error) {
  return std::string("cannot be reached: ") + std::strerror(error);
}

}  // namespace

SocketStream::SocketStream(UniqueFd socket) : socket_(std::move(socket)), owner_(::getpid()) {}

SocketStream::~SocketStream() {
  if (::getpid() == owner_) ::shutdown(socket_.get(), SHUT_RDWR);
}

std::size_t SocketStream::write(Span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    throw Error(ErrorKind::kPeerFailure, unreachable(errno));
  }
}

std::size_t SocketStream::read(Span<const iovec> pieces) {
  for (;;) {
    const ssize_t got = ::readv(socket_.get(), pieces.data(), static_cast<int>(pieces.size()));
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    closed_because_ = got == 0 ? "closed the connection; did its process end?" : unreachable(errno);
    return 0;
  }
}

// Fails only where the connection is gone already.
void SocketStream::stop_writing() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

std::size_t SocketStream::read_budget() const { return kReadBudget; }

}  // namespace omniccl
