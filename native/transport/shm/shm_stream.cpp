#include "transport/shm/shm_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace omniccl {
namespace {

std::string unreachable(int error) {
  return std::string("cannot be reached: ") + std::strerror(error);
}

// The descriptor that came with a message, if one did.
UniqueFd descriptor_in(msghdr& message) {
  UniqueFd found;
  bool too_many = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
      UniqueFd one(descriptor);
      if (found) {
        too_many = true;
      } else {
        found = std::move(one);
      }
    }
  }
  if (too_many) throw Error(ErrorKind::kPeerFailure, "sent shared memory twice");
  return found;
}

}  // namespace

ShmStream::ShmStream(UniqueFd socket, std::size_t ring_bytes)
    : socket_(std::move(socket)), owner_(::getpid()), out_(SharedRing::create(ring_bytes)) {
  send_ring();
}

ShmStream::~ShmStream() {
  if (::getpid() == owner_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void ShmStream::send_ring() {
  std::byte wake{1};
  iovec piece{&wake, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = out_.descriptor();
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  while (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) throw Error(ErrorKind::kPeerFailure, unreachable(errno));
  }
}

void ShmStream::wake_peer() {
  const std::byte wake{1};
  while (::send(socket_.get(), &wake, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    // A full socket has bytes enough that the peer did not take yet: it will wake.
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    throw Error(ErrorKind::kPeerFailure, unreachable(errno));
  }
}

void ShmStream::take_messages() {
  std::array<std::byte, 64> bytes{};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  while (!ended_) {
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      ended_ = true;
      // A reset tells that the peer had not taken all wake-ups.
      end_ = got == 0 || errno == ECONNRESET ? "closed the connection; did its process end?"
                                             : unreachable(errno);
      return;
    }
    if (UniqueFd memory = descriptor_in(message)) {
      if (in_) throw Error(ErrorKind::kPeerFailure, "sent shared memory twice");
      in_.emplace(SharedRing::open(std::move(memory)));
    }
    if (static_cast<std::size_t>(got) < bytes.size()) return;
  }
}

std::size_t ShmStream::write(Span<const iovec> pieces) {
  std::size_t wanted = 0;
  for (const iovec& piece : pieces) wanted += piece.iov_len;
  // With nobody reading, the news that there is room again would stay where it came.
  if (!reads_) take_messages();
  if (ended_) throw Error(ErrorKind::kPeerFailure, end_);
  if (out_.room() < wanted) out_.writer_sleeps();
  const std::size_t put = out_.put(pieces);
  if (put != 0 && out_.wake_reader()) wake_peer();
  return put;
}

std::size_t ShmStream::read(Span<const iovec> pieces) {
  for (bool looked = false;; looked = true) {
    const std::size_t got = in_ ? in_->take(pieces) : 0;
    if (got != 0) {
      if (in_->half_free() && in_->wake_writer()) wake_peer();
      return got;
    }
    if (looked) break;
    // Bytes stay in the socket while there may be any in the ring: so a poller goes on to tell.
    take_messages();
    if (in_) in_->reader_sleeps();
  }
  if (ended_) closed_because_ = end_;
  return 0;
}

void ShmStream::stop_writing() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

std::size_t ShmStream::read_budget() const { return std::numeric_limits<std::size_t>::max(); }

}  // namespace omniccl
