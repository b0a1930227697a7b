// The frame: what travels after the handshake. A fixed prefix, a head whose meaning the kind tells
// (messages.h), and a payload of block bytes (docs/protocol.md, "Frame").
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/span.h"

namespace omniccl {

enum class FrameKind : std::uint8_t {
  kContribution = 1,  // worker to shard
  kResult = 2,        // shard to worker
  kAbort = 3,         // either way; the sender's last frame
  kReady = 4,         // dedicated shard to worker, first of all: every rank is there
};

inline constexpr std::size_t kFramePrefixBytes = 24;

// A received frame without its payload.
struct FrameHead {
  FrameKind kind = FrameKind::kAbort;
  bool has_payload_checksum = false;
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;
  ByteSpan head;  // valid until the next frame is parsed
};

// Parses the frame that starts at `bytes`. Returns nothing as long as prefix and head are not there
// completely; the frame's head ends at byte kFramePrefixBytes + head.size(). Throws
// Error(kPeerFailure), saying what is wrong, for anything that is not a frame with a right
// checksum, or whose payload is longer than `max_payload_bytes`.
std::optional<FrameHead> parse_frame(ByteSpan bytes, std::uint64_t max_payload_bytes);

inline std::uint64_t total_bytes(Span<const iovec> pieces) {
  std::uint64_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

// A frame on its way out: a list of pieces, most of them in place in the caller's memory.
class OutgoingFrame {
 public:
  // Told when the last byte of the frame was handed to the kernel.
  class Owner {
   public:
    virtual void frame_sent(std::uint64_t token) = 0;

   protected:
    ~Owner() = default;
  };

  // Begins a frame: returns the buffer to append the head to.
  std::vector<std::byte>& begin();
  // Ends it. `payload` must stay as it is until frame_sent() is called, or for pieces shorter than
  // kCopyBelow, which are copied, until finish() returns. `payload_checksum` is its CRC32C, or
  // nothing for a frame without one.
  void finish(FrameKind kind, Span<const iovec> payload,
              std::optional<std::uint32_t> payload_checksum, Owner* owner = nullptr,
              std::uint64_t token = 0);

  Span<iovec> pieces() { return pieces_; }
  std::uint64_t copied_bytes() const { return staging_.size(); }
  void notify_sent() const {
    if (owner_ != nullptr) owner_->frame_sent(token_);
  }

  // Pieces shorter than this are cheaper to copy than to list.
  static constexpr std::size_t kCopyBelow = 1024;

 private:
  void add_payload(Span<const iovec> payload);

  std::vector<std::byte> prefix_;   // as it is written, before it goes to the front of head_
  std::vector<std::byte> head_;     // prefix and head
  std::vector<std::byte> staging_;  // the copied pieces
  std::vector<iovec> pieces_;
  Owner* owner_ = nullptr;
  std::uint64_t token_ = 0;
};

}  // namespace omniccl
