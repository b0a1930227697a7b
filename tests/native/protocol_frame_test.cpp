#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "encoder/block_bitmap.h"
#include "protocol/checksum.h"
#include "protocol/frame.h"
#include "protocol/limits.h"
#include "protocol/messages.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

std::vector<std::byte> bytes_of(OutgoingFrame& frame) {
  std::vector<std::byte> bytes;
  for (const iovec& piece : frame.pieces()) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), data, data + piece.iov_len);
  }
  return bytes;
}

std::vector<std::byte> text(const std::string& value) {
  const auto* data = reinterpret_cast<const std::byte*>(value.data());
  return {data, data + value.size()};
}

iovec piece_of(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

ContributionMessage sample() {
  ContributionMessage message;
  message.operation = 0x1122334455667788;
  message.chunk = 7;
  message.dtype = DataType::kFloat16;
  message.prescale = 0.5;
  message.blocks = 10;
  message.segments = {{7, 32, 32}, {3, 16, 5}};
  message.bitmap.assign(2, std::byte{0});
  set_bit(message.bitmap, 1);
  set_bit(message.bitmap, 9);
  return message;
}

std::vector<std::byte> head_of(const ContributionMessage& message) {
  std::vector<std::byte> head;
  encode_contribution(message.operation, message.chunk, message.dtype, message.prescale,
                      message.blocks, message.segments, message.bitmap, head);
  return head;
}

TEST(Crc32c, HasTheKnownCheckValue) {
  Crc32c crc;
  crc.update(text("123456789"));
  EXPECT_EQ(crc.value(), 0xE3069283U);
}

TEST(Frame, TravelsWhole) {
  std::vector<std::byte> large(5000, std::byte{1});
  std::vector<std::byte> small(100, std::byte{2});
  const std::vector<iovec> payload{piece_of(small), piece_of(small), piece_of(large),
                                   piece_of(small)};
  OutgoingFrame frame;
  const std::vector<std::byte> head = text("head");
  ByteWriter(frame.begin()).append(head);
  frame.finish(FrameKind::kResult, payload, crc32c(payload));
  EXPECT_EQ(frame.copied_bytes(), 300U);
  EXPECT_EQ(frame.pieces().size(), 4U);  // head, two small ones joined, the large one, a small one

  const std::vector<std::byte> bytes = bytes_of(frame);
  ASSERT_EQ(bytes.size(), kFramePrefixBytes + 4 + 5300);
  const auto parsed = parse_frame(bytes, 1 << 20);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->kind, FrameKind::kResult);
  EXPECT_EQ(parsed->payload_bytes, 5300U);
  EXPECT_EQ(std::vector<std::byte>(parsed->head.begin(), parsed->head.end()), head);
  Crc32c crc;
  crc.update(ByteSpan(bytes).slice(kFramePrefixBytes + 4, 5300));
  EXPECT_TRUE(parsed->has_payload_checksum);
  EXPECT_EQ(parsed->payload_checksum, crc.value());
}

TEST(Frame, NeedsAllOfItsHead) {
  OutgoingFrame frame;
  ByteWriter(frame.begin()).append(text("some head"));
  frame.finish(FrameKind::kAbort, {}, std::nullopt);
  const std::vector<std::byte> bytes = bytes_of(frame);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_frame(ByteSpan(bytes).slice(0, size), 0).has_value()) << size;
  }
  EXPECT_TRUE(parse_frame(bytes, 0).has_value());
}

// No single flipped bit of prefix or head gets through, and none makes the parser wait for more
// bytes than a frame may have.
TEST(Frame, EveryFlippedBitIsFound) {
  OutgoingFrame frame;
  ByteWriter(frame.begin()).append(head_of(sample()));
  frame.finish(FrameKind::kContribution, {}, crc32c({}));
  std::vector<std::byte> bytes = bytes_of(frame);
  const std::size_t real = bytes.size();
  bytes.resize(kFramePrefixBytes + kMaxHeadBytes);  // a longer head than the real one is there too
  for (std::size_t bit = 0; bit < real * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(parse_frame(bytes, 1 << 20), Error) << "bit " << bit;
    bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
  }
}

TEST(Frame, LengthsAreCheckedBeforeTheyAreWaitedFor) {
  OutgoingFrame frame;
  frame.begin();
  frame.finish(FrameKind::kAbort, {}, std::nullopt);
  std::vector<std::byte> bytes = bytes_of(frame);
  const std::uint32_t huge = 0xFFFFFFFF;
  std::vector<std::byte> long_head = bytes;
  std::memcpy(long_head.data() + 8, &huge, sizeof huge);
  EXPECT_THROW(parse_frame(long_head, 1 << 20), Error);
  std::vector<std::byte> long_payload = bytes;
  std::memcpy(long_payload.data() + 12, &huge, sizeof huge);
  EXPECT_THROW(parse_frame(long_payload, 1 << 20), Error);
}

TEST(ContributionMessage, RoundTrips) {
  const ContributionMessage message = sample();
  ContributionMessage decoded;
  decode_contribution(head_of(message), 1 << 20, decoded);
  EXPECT_EQ(decoded.operation, message.operation);
  EXPECT_EQ(decoded.chunk, message.chunk);
  EXPECT_EQ(decoded.dtype, message.dtype);
  EXPECT_EQ(decoded.prescale, message.prescale);
  EXPECT_EQ(decoded.blocks, message.blocks);
  EXPECT_EQ(decoded.segments, message.segments);
  EXPECT_EQ(decoded.bitmap, message.bitmap);
}

TEST(ContributionMessage, CarriesEveryDtypeAndNoOther) {
  std::set<DataType> carried;
  for (int value = 0; value <= 0xFF; ++value) {
    ContributionMessage message = sample();
    message.dtype = static_cast<DataType>(value);
    const std::vector<std::byte> head = head_of(message);
    EXPECT_EQ(head[12], std::byte(value));  // docs/protocol.md
    ContributionMessage decoded;
    try {
      decode_contribution(head, 1 << 20, decoded);
    } catch (const Error&) {
      continue;
    }
    EXPECT_EQ(decoded.dtype, message.dtype);
    carried.insert(decoded.dtype);
  }
  EXPECT_EQ(carried, std::set<DataType>(kDataTypes.begin(), kDataTypes.end()));
}

TEST(ContributionMessage, RefusesEveryLie) {
  const auto refused = [](void (*lie)(ContributionMessage&)) {
    ContributionMessage message = sample();
    lie(message);
    ContributionMessage decoded;
    EXPECT_THROW(decode_contribution(head_of(message), 1 << 20, decoded), Error);
  };
  refused([](ContributionMessage& m) { m.dtype = static_cast<DataType>(0); });
  refused([](ContributionMessage& m) { m.dtype = static_cast<DataType>(99); });
  refused([](ContributionMessage& m) { m.prescale = 0; });
  refused([](ContributionMessage& m) { m.prescale = std::numeric_limits<double>::quiet_NaN(); });
  refused([](ContributionMessage& m) { m.blocks = 0; });
  refused([](ContributionMessage& m) { m.blocks = 0xFFFFFFFF; });
  refused([](ContributionMessage& m) { m.blocks = 11; });
  refused([](ContributionMessage& m) { m.segments.clear(); });
  refused([](ContributionMessage& m) { m.segments.resize(kMaxChunkSegments + 1, {1, 1, 1}); });
  refused([](ContributionMessage& m) { m.segments[0].blocks = 0xFFFFFFFF; });
  refused([](ContributionMessage& m) { m.segments[0].block_elements = kMaxBlockElements + 1; });
  refused([](ContributionMessage& m) { m.segments[0].last_elements = 0; });
  refused([](ContributionMessage& m) { m.segments[0].last_elements = 33; });
  refused([](ContributionMessage& m) { m.bitmap.push_back(std::byte{0}); });
  refused([](ContributionMessage& m) { m.bitmap.pop_back(); });
  refused([](ContributionMessage& m) { m.bitmap[1] = std::byte{0x80}; });
  ContributionMessage decoded;
  EXPECT_THROW(decode_contribution(head_of(sample()), 100, decoded), Error);  // larger than allowed
}

TEST(ResultMessage, RoundTripsAndRefusesAnExclusiveBlockOutsideTheUnion) {
  const std::vector<std::byte> united{std::byte{0b1011}};
  const std::vector<std::byte> exclusive{std::byte{0b0010}};
  std::vector<std::byte> head;
  encode_result(3, 4, 5, united, exclusive, head);
  ResultMessage decoded;
  decode_result(head, decoded);
  EXPECT_EQ(decoded.operation, 3U);
  EXPECT_EQ(decoded.chunk, 4U);
  EXPECT_EQ(decoded.blocks, 5U);
  EXPECT_EQ(decoded.united, united);
  EXPECT_EQ(decoded.exclusive, exclusive);
  head.clear();
  encode_result(3, 4, 5, exclusive, united, head);
  EXPECT_THROW(decode_result(head, decoded), Error);
}

TEST(AbortMessage, IsCutAndCleaned) {
  std::vector<std::byte> head;
  encode_abort({ErrorKind::kPeerFailure, "rank 1\n\x1b[31m" + std::string(10'000, 'x')}, head);
  const AbortMessage decoded = decode_abort(head);
  EXPECT_EQ(decoded.kind, ErrorKind::kPeerFailure);
  EXPECT_EQ(decoded.text.substr(0, 12), "rank 1??[31m");
  EXPECT_EQ(decoded.text.size(), kMaxAbortText);
}

}  // namespace
}  // namespace omniccl
