#include "transport/stream_connection.h"

#include <algorithm>
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
constexpr std::size_t kMaxPieces = IOV_MAX;

Error peer_failure(const std::string& what) { return {ErrorKind::kPeerFailure, what}; }

}  // namespace

StreamConnection::StreamConnection(std::unique_ptr<ByteStream> stream, std::string peer,
                                   std::uint64_t max_payload_bytes, std::uint64_t handshake_sent,
                                   std::uint64_t handshake_received)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      max_payload_bytes_(max_payload_bytes),
      staging_(kStagingBytes),
      last_frame_bytes_(kLargeFrameBytes),
      last_head_bytes_(kUsualHeadBytes) {
  traffic_.bytes_sent = handshake_sent;
  traffic_.bytes_received = handshake_received;
}

OutgoingFrame& StreamConnection::prepare() {
  if (prepared_ == nullptr) {
    if (free_.empty()) free_.push_back(std::make_unique<OutgoingFrame>());
    prepared_ = std::move(free_.back());
    free_.pop_back();
  }
  return *prepared_;
}

void StreamConnection::submit() {
  traffic_.bytes_copied_send += prepared_->copied_bytes();
  queue_.push_back(std::move(prepared_));
}

void StreamConnection::gather() {
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

void StreamConnection::mark_sent(std::size_t bytes) {
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

bool StreamConnection::flush() {
  bool moved = false;
  while (!queue_.empty()) {
    gather();
    const std::size_t sent = stream_->write(iovecs_);
    const bool all = sent == total_bytes(iovecs_);
    mark_sent(sent);
    moved |= sent != 0;
    if (!all) break;  // there is no room; asking again would only tell so
  }
  return moved;
}

void StreamConnection::drop_unstarted() {
  const bool started = !queue_.empty() && (next_piece_ != 0 || piece_offset_ != 0);
  queue_.resize(started ? 1 : 0);
}

void StreamConnection::close_sending() noexcept {
  queue_.clear();
  stream_->stop_writing();
}

bool StreamConnection::receive(FrameSink& sink) {
  const std::uint64_t before = traffic_.bytes_received;
  while (closed_because().empty() && traffic_.bytes_received - before < stream_->read_budget() &&
         read_some()) {
    parse(sink);
  }
  return traffic_.bytes_received != before;
}

std::size_t StreamConnection::staging_wanted() const {
  return last_frame_bytes_ < kLargeFrameBytes ? kStagingBytes
                                              : kFramePrefixBytes + last_head_bytes_;
}

bool StreamConnection::read_some() {
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
  std::uint64_t bytes = stream_->read(iovecs_);
  if (bytes == 0) return false;
  traffic_.bytes_received += bytes;

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

void StreamConnection::parse(FrameSink& sink) {
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

void StreamConnection::copy_from_staging() {
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

void StreamConnection::end_frame(FrameSink& sink) {
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
