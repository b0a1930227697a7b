// Moves the bytes of a handshake over a socket, and reads not one byte more than it needs.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace omniccl {

// A connected, authenticated, non-blocking socket, TCP or local.
struct PeerSocket {
  UniqueFd socket;
  std::string address;               // of the other side
  std::uint64_t bytes_sent = 0;      // by the handshake
  std::uint64_t bytes_received = 0;  // likewise
};

template <typename Handshake>
class HandshakeChannel {
 public:
  HandshakeChannel(UniqueFd socket, Handshake handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)) {}

  int descriptor() const { return socket_.get(); }
  Handshake& handshake() { return handshake_; }
  bool wants_write() const { return sent_ < out_.size(); }
  bool done() const { return handshake_.expected() == 0 && !wants_write(); }

  void send(const std::vector<std::byte>& bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  // Reads and writes what can be. Throws Error when the peer is gone or not ours.
  void advance() {
    write_some();
    while (handshake_.expected() != 0 && read_some()) {
      if (in_.size() < handshake_.expected()) continue;
      const std::vector<std::byte> message = std::move(in_);
      in_.clear();
      send(handshake_.feed(message));
      write_some();
    }
  }

  PeerSocket release(std::string address) {
    return {std::move(socket_), std::move(address), sent_, received_};
  }

 private:
  void write_some() {
    while (wants_write()) {
      const ssize_t count = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count < 0) throw Error(ErrorKind::kPeerFailure, std::strerror(errno));
      sent_ += static_cast<std::size_t>(count);
    }
  }

  bool read_some() {
    const std::size_t have = in_.size();
    in_.resize(handshake_.expected());
    const ssize_t count = ::recv(socket_.get(), in_.data() + have, in_.size() - have, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) throw Error(ErrorKind::kPeerFailure, "it closed the connection");
    if (count < 0 && error == EINTR) return true;
    if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return false;
    if (count < 0) throw Error(ErrorKind::kPeerFailure, std::strerror(error));
    received_ += static_cast<std::uint64_t>(count);
    return true;
  }

  UniqueFd socket_;
  Handshake handshake_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace omniccl
