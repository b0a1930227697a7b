#include "protocol/frame.h"

#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "protocol/checksum.h"
#include "protocol/limits.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

constexpr std::uint32_t kMagic = 0x4E4D4F01;  // 01 'O' 'M' 'N' on the wire
constexpr std::uint16_t kPayloadChecksumFlag = 1;
constexpr std::size_t kHeadChecksumOffset = 20;

std::uint32_t head_checksum(ByteSpan prefix, ByteSpan head) {
  Crc32c crc;
  crc.update(prefix.slice(0, kHeadChecksumOffset));
  crc.update(head);
  return crc.value();
}

}  // namespace

std::optional<FrameHead> parse_frame(ByteSpan bytes, std::uint64_t max_payload_bytes) {
  if (bytes.size() < kFramePrefixBytes) return std::nullopt;
  ByteReader reader(bytes.slice(0, kFramePrefixBytes));
  if (reader.read<std::uint32_t>() != kMagic) throw malformed("it does not begin with the magic");
  FrameHead frame;
  const auto kind = reader.read<std::uint8_t>();
  const auto reserved = reader.read<std::uint8_t>();
  const auto flags = reader.read<std::uint16_t>();
  const auto head_bytes = reader.read<std::uint32_t>();
  frame.payload_bytes = reader.read<std::uint32_t>();
  frame.payload_checksum = reader.read<std::uint32_t>();
  const auto checksum = reader.read<std::uint32_t>();
  // Lengths first: they decide how much to wait for.
  if (head_bytes > kMaxHeadBytes) {
    throw malformed("a head of " + std::to_string(head_bytes) + " bytes");
  }
  if (frame.payload_bytes > max_payload_bytes) {
    throw malformed("a payload of " + std::to_string(frame.payload_bytes) + " bytes");
  }
  if (bytes.size() - kFramePrefixBytes < head_bytes) return std::nullopt;
  frame.head = bytes.slice(kFramePrefixBytes, head_bytes);
  if (head_checksum(bytes, frame.head) != checksum) {
    throw malformed("the checksum of its head is wrong");
  }
  if (kind < static_cast<std::uint8_t>(FrameKind::kContribution) ||
      kind > static_cast<std::uint8_t>(FrameKind::kReady)) {
    throw malformed("unknown kind " + std::to_string(kind));
  }
  if (reserved != 0 || (flags & ~kPayloadChecksumFlag) != 0) throw malformed("unknown flags");
  frame.kind = static_cast<FrameKind>(kind);
  frame.has_payload_checksum = (flags & kPayloadChecksumFlag) != 0;
  if (!frame.has_payload_checksum && frame.payload_checksum != 0) {
    throw malformed("a checksum where its flag says that there is none");
  }
  return frame;
}

std::vector<std::byte>& OutgoingFrame::begin() {
  head_.assign(kFramePrefixBytes, std::byte{0});
  staging_.clear();
  pieces_.clear();
  owner_ = nullptr;
  return head_;
}

void OutgoingFrame::finish(FrameKind kind, Span<const iovec> payload,
                           std::optional<std::uint32_t> payload_checksum, Owner* owner,
                           std::uint64_t token) {
  const std::uint64_t payload_bytes = total_bytes(payload);
  if (payload_bytes > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kInvalidArgument, "a frame's payload is shorter than 4 GiB");
  }
  prefix_.clear();
  ByteWriter writer(prefix_);
  writer.write(kMagic);
  writer.write(static_cast<std::uint8_t>(kind));
  writer.write(std::uint8_t{0});
  writer.write(payload_checksum ? kPayloadChecksumFlag : std::uint16_t{0});
  writer.write(static_cast<std::uint32_t>(head_.size() - kFramePrefixBytes));
  writer.write(static_cast<std::uint32_t>(payload_bytes));
  writer.write(payload_checksum.value_or(0U));
  const ByteSpan head(head_);
  writer.write(
      head_checksum(prefix_, head.slice(kFramePrefixBytes, head_.size() - kFramePrefixBytes)));
  std::memcpy(head_.data(), prefix_.data(), kFramePrefixBytes);

  pieces_.push_back({head_.data(), head_.size()});
  add_payload(payload);
  owner_ = owner;
  token_ = token;
}

void OutgoingFrame::add_payload(Span<const iovec> payload) {
  std::size_t small_bytes = 0;
  for (const iovec& piece : payload) {
    if (piece.iov_len < kCopyBelow) small_bytes += piece.iov_len;
  }
  staging_.reserve(small_bytes);  // pieces_ points into it: it must not move
  for (const iovec& piece : payload) {
    if (piece.iov_len >= kCopyBelow) {
      pieces_.push_back(piece);
      continue;
    }
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    std::byte* const end = staging_.data() + staging_.size();
    iovec& last = pieces_.back();
    staging_.insert(staging_.end(), data, data + piece.iov_len);
    if (!staging_.empty() && static_cast<std::byte*>(last.iov_base) + last.iov_len == end &&
        last.iov_base != head_.data()) {
      last.iov_len += piece.iov_len;
    } else {
      pieces_.push_back({end, piece.iov_len});
    }
  }
}

}  // namespace omniccl
