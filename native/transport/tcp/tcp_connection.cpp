#include "transport/tcp/tcp_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/error.h"
#include "protocol/checksum.h"
#include "protocol/limits.h"

namespace omniccl {
namespace {

constexpr std::size_t kStagingBytes = 32 * 1024;
static_assert(kStagingBytes >= 2 * (kFramePrefixBytes + kMaxHeadBytes));
// After a frame as large as this, only the next head is staged: staging more would copy payload.
constexpr std::uint64_t kLargeFrameBytes = 16 * 1024;
constexpr std::size_t kUsualHeadBytes = 128;
// Bytes taken from one connection before the others get a turn.
constexpr std::uint64_t kReceiveBudget = 1024 * 1024;
constexpr std::size_t kMaxPieces = IOV_MAX;

Error peer_failure(const std::string& what) { return {ErrorKind::kPeerFailure, what}; }

}  // namespace

TcpConnection::TcpConnection(UniqueFd socket, std::string peer, std::uint64_t max_payload_bytes,
                             std::uint64_t handshake_sent, std::uint64_t handshake_received)
    : socket_(std::move(socket)),
      owner_(::getpid()),
      peer_(std::move(peer)),
      max_payload_bytes_(max_payload_bytes),
      staging_(kStagingBytes),
      last_frame_bytes_(kLargeFrameBytes),
      last_head_bytes_(kUsualHeadBytes) {
  traffic_.bytes_sent = handshake_sent;
  traffic_.bytes_received = handshake_received;
}

TcpConnection::~TcpConnection() {
  if (::getpid() == owner_) ::shutdown(socket_.get(), SHUT_RDWR);
}

OutgoingFrame& TcpConnection::prepare() {
  if (prepared_ == nullptr) {
    if (free_.empty()) free_.push_back(std::make_unique<OutgoingFrame>());
    prepared_ = std::move(free_.back());
    free_.pop_back();
  }
  return *prepared_;
}

void TcpConnection::submit() {
  traffic_.bytes_copied_send += prepared_->copied_bytes();
  queue_.push_back(std::move(prepared_));
}

void TcpConnection::gather() {
  iovecs_.clear();
  std::size_t piece = next_piece_;
  std::size_t offset = piece_offset_;
  for (const auto& frame : queue_) {
    const Span<iovec> pieces = frame->pieces();
    for (; piece < pieces.size(); ++piece) {
      if (iovecs_.size() == kMaxPieces) return;
      auto* base = static_cast<std::byte*>(pieces[piece].iov_base) + offset;
      iovecs_.push_back({base, pieces[piece].iov_len - offset});
      offset = 0;
    }
    piece = 0;
  }
}

void TcpConnection::mark_sent(std::size_t bytes) {
  traffic_.bytes_sent += bytes;
  while (!queue_.empty()) {
    const Span<iovec> pieces = queue_.front()->pieces();
    while (next_piece_ < pieces.size()) {
      const std::size_t rest = pieces[next_piece_].iov_len - piece_offset_;
      if (bytes < rest) {
        piece_offset_ += bytes;
        return;
      }
      bytes -= rest;
      ++next_piece_;
      piece_offset_ = 0;
    }
    std::unique_ptr<OutgoingFrame> sent = std::move(queue_.front());
    queue_.pop_front();
    next_piece_ = 0;
    sent->notify_sent();
    free_.push_back(std::move(sent));
  }
}

bool TcpConnection::flush() {
  bool moved = false;
  while (!queue_.empty()) {
    gather();
    msghdr message{};
    message.msg_iov = iovecs_.data();
    message.msg_iovlen = iovecs_.size();
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      throw peer_failure(std::string("cannot be reached: ") + std::strerror(errno));
    }
    const bool all = static_cast<std::uint64_t>(sent) == total_bytes(iovecs_);
    mark_sent(static_cast<std::size_t>(sent));
    moved = true;
    if (!all) break;  // the socket buffer is full; asking again would only tell so
  }
  return moved;
}

void TcpConnection::drop_unstarted() {
  const bool started = !queue_.empty() && (next_piece_ != 0 || piece_offset_ != 0);
  queue_.resize(started ? 1 : 0);
}

void TcpConnection::close_sending() noexcept {
  queue_.clear();
  ::shutdown(socket_.get(), SHUT_WR);  // fails only where the connection is gone already
}

bool TcpConnection::receive(FrameSink& sink) {
  const std::uint64_t before = traffic_.bytes_received;
  while (closed_because_.empty() && traffic_.bytes_received - before < kReceiveBudget &&
         read_some()) {
    parse(sink);
  }
  return traffic_.bytes_received != before;
}

std::size_t TcpConnection::staging_wanted() const {
  return last_frame_bytes_ < kLargeFrameBytes ? kStagingBytes
                                              : kFramePrefixBytes + last_head_bytes_;
}

bool TcpConnection::read_some() {
  if (staging_begin_ != 0) {
    std::memmove(staging_.data(), staging_.data() + staging_begin_, staging_end_ - staging_begin_);
    staging_end_ -= staging_begin_;
    staging_begin_ = 0;
  }
  iovecs_.clear();
  std::uint64_t payload_room = 0;
  if (in_payload_) {
    std::size_t offset = payload_offset_;
    for (std::size_t i = payload_piece_; i < payload_.size() && iovecs_.size() < kMaxPieces - 1;
         ++i) {
      iovecs_.push_back(
          {static_cast<std::byte*>(payload_[i].iov_base) + offset, payload_[i].iov_len - offset});
      payload_room += iovecs_.back().iov_len;
      offset = 0;
    }
  }
  // When the list was too long for one call, what follows the payload cannot be staged yet.
  const bool whole_payload = !in_payload_ || iovecs_.size() == payload_.size() - payload_piece_;
  if (whole_payload) {
    const std::size_t wanted = std::max(staging_wanted(), staging_end_ + 1);
    iovecs_.push_back(
        {staging_.data() + staging_end_, std::min(wanted, staging_.size()) - staging_end_});
  }
  ssize_t got;
  do {
    got = ::readv(socket_.get(), iovecs_.data(), static_cast<int>(iovecs_.size()));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    closed_because_ = std::string("cannot be reached: ") + std::strerror(errno);
    return false;
  }
  if (got == 0) {
    closed_because_ = "closed the connection; did its process end?";
    return false;
  }
  traffic_.bytes_received += static_cast<std::uint64_t>(got);

  auto bytes = static_cast<std::uint64_t>(got);
  for (std::uint64_t direct = std::min(bytes, payload_room); direct != 0;) {
    const std::uint64_t rest = payload_[payload_piece_].iov_len - payload_offset_;
    const std::uint64_t part = std::min(direct, rest);
    payload_offset_ += part;
    direct -= part;
    bytes -= part;
    if (part == rest) {
      ++payload_piece_;
      payload_offset_ = 0;
    }
  }
  staging_end_ += bytes;
  return true;
}

void TcpConnection::parse(FrameSink& sink) {
  for (;;) {
    if (in_payload_) {
      copy_from_staging();
      if (payload_piece_ < payload_.size()) return;
      end_frame(sink);
    }
    const ByteSpan staged(staging_.data() + staging_begin_, staging_end_ - staging_begin_);
    const std::optional<FrameHead> frame = parse_frame(staged, max_payload_bytes_);
    if (!frame) {
      if (!staged.empty()) last_frame_bytes_ = 0;  // a longer head than the last: stage it whole
      return;
    }
    payload_.clear();
    sink.begin_frame(*frame, payload_);
    if (total_bytes(payload_) != frame->payload_bytes) {
      throw Error(ErrorKind::kInvalidArgument, "a frame sink gave too little or too much room");
    }
    staging_begin_ += kFramePrefixBytes + frame->head.size();
    last_head_bytes_ = frame->head.size();
    last_frame_bytes_ = kFramePrefixBytes + frame->head.size() + frame->payload_bytes;
    check_payload_ = frame->has_payload_checksum;
    payload_checksum_ = frame->payload_checksum;
    payload_piece_ = 0;
    payload_offset_ = 0;
    in_payload_ = true;
  }
}

void TcpConnection::copy_from_staging() {
  while (payload_piece_ < payload_.size()) {
    const iovec& piece = payload_[payload_piece_];
    const std::size_t rest = piece.iov_len - payload_offset_;
    const std::size_t part = std::min(rest, staging_end_ - staging_begin_);
    if (part != 0) {
      std::memcpy(static_cast<std::byte*>(piece.iov_base) + payload_offset_,
                  staging_.data() + staging_begin_, part);
      staging_begin_ += part;
      payload_offset_ += part;
      traffic_.bytes_copied_receive += part;
    }
    if (part != rest) return;
    ++payload_piece_;
    payload_offset_ = 0;
  }
}

void TcpConnection::end_frame(FrameSink& sink) {
  in_payload_ = false;
  if (check_payload_) {
    Crc32c crc;
    crc.update(payload_);
    if (crc.value() != payload_checksum_) {
      throw peer_failure("sent a frame that was damaged on its way: its checksum is wrong");
    }
  }
  sink.end_frame();
}

}  // namespace omniccl
