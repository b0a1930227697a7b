// Frames over streams whose buffers, reads and writes are as awkward as the system may make them.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "protocol/checksum.h"
#include "protocol/limits.h"
#include "transport/channel.h"
#include "transport/poller.h"
#include "transport/shm/shm_stream.h"
#include "transport/socket/socket_stream.h"
#include "transport/stream_connection.h"

namespace omniccl {
namespace {

constexpr std::uint64_t kMaxPayload = 8 << 20;
constexpr std::size_t kSharedRingBytes = std::size_t{64} << 10;
constexpr std::uint64_t kSender = 1;
constexpr std::uint64_t kReceiver = 2;

struct SocketPair {
  UniqueFd first;
  UniqueFd second;

  explicit SocketPair(int buffer_bytes = 0) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    first = UniqueFd(ends[0]);
    second = UniqueFd(ends[1]);
    if (buffer_bytes == 0) return;
    for (const int end : ends) {
      for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
        EXPECT_EQ(::setsockopt(end, SOL_SOCKET, option, &buffer_bytes, sizeof(buffer_bytes)), 0);
      }
    }
  }
};

// Keeps what arrives, each payload in pieces of a length that does not fit anything.
class Keeper final : public FrameSink {
 public:
  explicit Keeper(std::size_t piece_bytes = 1 << 20) : piece_bytes_(piece_bytes) {}

  void begin_frame(const FrameHead& frame, std::vector<iovec>& payload) override {
    payloads.emplace_back(frame.payload_bytes);
    for (std::size_t at = 0; at < frame.payload_bytes; at += piece_bytes_) {
      payload.push_back({payloads.back().data() + at,
                         std::min<std::size_t>(piece_bytes_, frame.payload_bytes - at)});
    }
  }
  void end_frame() override { ++whole; }

  std::vector<std::vector<std::byte>> payloads;
  std::size_t whole = 0;

 private:
  std::size_t piece_bytes_;
};

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

void queue(Connection& connection, std::vector<std::byte>& payload, bool checksum = true) {
  const std::array<iovec, 1> pieces{iovec{payload.data(), payload.size()}};
  OutgoingFrame& frame = connection.prepare();
  frame.begin();
  frame.finish(FrameKind::kContribution, pieces,
               checksum ? std::optional(crc32c(pieces)) : std::nullopt);
  connection.submit();
}

enum class Kind { kSocket, kSharedMemory };

std::unique_ptr<StreamConnection> connection_on(UniqueFd socket, const char* peer,
                                                Kind kind = Kind::kSocket) {
  std::unique_ptr<ByteStream> stream;
  if (kind == Kind::kSocket) {
    stream = std::make_unique<SocketStream>(std::move(socket));
  } else {
    stream = std::make_unique<ShmStream>(std::move(socket), kSharedRingBytes);
  }
  return std::make_unique<StreamConnection>(std::move(stream), peer, kMaxPayload, 0, 0);
}

// A sender's and a receiver's channel on one poller, each served only when that reports it.
class Flow {
 public:
  Flow(SocketPair sockets, Kind kind, Keeper& keeper)
      : sender_(connection_on(std::move(sockets.first), "receiver", kind)),
        receiver_(connection_on(std::move(sockets.second), "sender", kind)),
        sending_(poller_, kSender, *sender_, nothing_),
        receiving_(poller_, kReceiver, *receiver_, keeper) {}

  StreamConnection& sender() { return *sender_; }

  // Waits for events and serves each once, until `keeper` has `frames`. False when no event comes
  // though not all is there: a lost wake-up, which a loop would sleep through for ever.
  bool run_until(const Keeper& keeper, std::size_t frames) {
    sending_.flush();
    while (keeper.whole < frames) {
      const Span<const Poller::Event> events = poller_.wait(Nanoseconds{0});
      if (events.empty()) return false;
      ++turns;
      for (const Poller::Event& event : events) {
        Channel& channel = event.cookie == kSender ? sending_ : receiving_;
        if (event.readable) channel.receive();
        channel.flush();
      }
    }
    return true;
  }

  std::size_t turns = 0;

 private:
  Keeper nothing_;
  Poller poller_;
  std::unique_ptr<StreamConnection> sender_;
  std::unique_ptr<StreamConnection> receiver_;
  Channel sending_;
  Channel receiving_;
};

class ChannelOver : public ::testing::TestWithParam<Kind> {};

// A turn takes a bounded amount. What it leaves must be reported again, though nothing new arrives.
TEST_P(ChannelOver, IsWokenForWhatATurnLeftUnread) {
  constexpr int kRoom = 4 << 20;
  SocketPair sockets(kRoom);
  std::vector<std::byte> payload = random_bytes(150'000, 1);
  Keeper keeper;
  Flow flow(std::move(sockets), GetParam(), keeper);
  for (int i = 0; i < 40; ++i) queue(flow.sender(), payload);
  EXPECT_TRUE(flow.run_until(keeper, 40));
  EXPECT_GE(flow.turns, 6U);  // 6 MB at most 1 MiB and a bit at a time
  for (const auto& received : keeper.payloads) EXPECT_EQ(received, payload);
}

// A queue that is not taken whole must be taken up again once there is room.
TEST_P(ChannelOver, IsWokenWhenThereIsRoomAgain) {
  SocketPair sockets(4096);
  std::vector<std::byte> payload = random_bytes(3 << 20, 2);
  Keeper keeper;
  Flow flow(std::move(sockets), GetParam(), keeper);
  for (int i = 0; i < 3; ++i) queue(flow.sender(), payload);
  EXPECT_TRUE(flow.run_until(keeper, 3));
  EXPECT_GT(flow.turns, 100U);
  EXPECT_EQ(flow.sender().unsent_frames(), 0U);
  for (const auto& received : keeper.payloads) EXPECT_EQ(received, payload);
}

INSTANTIATE_TEST_SUITE_P(Streams, ChannelOver,
                         ::testing::Values(Kind::kSocket, Kind::kSharedMemory));

// All frames of a conversation as they go over the wire.
std::vector<std::byte> wire_of(std::vector<std::vector<std::byte>>& payloads, bool checksum) {
  SocketPair sockets(4 << 20);
  const auto sender = connection_on(std::move(sockets.first), "receiver");
  for (std::vector<std::byte>& payload : payloads) queue(*sender, payload, checksum);
  sender->flush();
  EXPECT_EQ(sender->unsent_frames(), 0U);
  std::vector<std::byte> wire(4 << 20);
  const ssize_t got = ::read(sockets.second.get(), wire.data(), wire.size());
  EXPECT_GT(got, 0);
  wire.resize(static_cast<std::size_t>(got));
  return wire;
}

TEST(StreamConnection, TakesFramesCutAnywhere) {
  std::vector<std::vector<std::byte>> payloads;
  unsigned seed = 0;
  for (const std::size_t size :
       {0U, 1U, 5000U, 40'000U, 1023U, 1024U, 1025U, 70'000U, 3U, 32'768U}) {
    payloads.push_back(random_bytes(size, ++seed));
  }
  const std::vector<std::byte> wire = wire_of(payloads, true);
  std::mt19937 generator(7);
  for (const std::size_t most : {1U, 2U, 23U, 1000U, 30'000U, 100'000U}) {
    SocketPair sockets(4 << 20);
    const auto receiver = connection_on(std::move(sockets.second), "sender");
    Keeper keeper(most % 2 == 0 ? 777 : 1 << 20);
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t part = std::min<std::size_t>(1 + generator() % most, wire.size() - at);
      ASSERT_EQ(::write(sockets.first.get(), wire.data() + at, part), static_cast<ssize_t>(part));
      at += part;
      receiver->receive(keeper);
    }
    EXPECT_EQ(keeper.whole, payloads.size()) << most;
    EXPECT_EQ(keeper.payloads, payloads) << most;
  }
}

TEST(StreamConnection, FindsEveryFlippedByte) {
  std::vector<std::vector<std::byte>> payloads{random_bytes(900, 3), random_bytes(5000, 4)};
  const std::size_t size = wire_of(payloads, true).size();
  // Where a length has grown it shows as soon as so much more has come.
  payloads.push_back(random_bytes(2 * std::size_t{kMaxHeadBytes}, 5));
  const std::vector<std::byte> wire = wire_of(payloads, true);
  for (std::size_t at = 0; at < size; ++at) {
    std::vector<std::byte> damaged = wire;
    damaged[at] ^= std::byte{static_cast<unsigned char>(1U << (at % 8))};
    SocketPair sockets(1 << 20);
    const auto receiver = connection_on(std::move(sockets.second), "sender");
    ASSERT_EQ(::write(sockets.first.get(), damaged.data(), damaged.size()),
              static_cast<ssize_t>(damaged.size()));
    Keeper keeper;
    EXPECT_THROW(receiver->receive(keeper), Error) << at;
    EXPECT_LT(keeper.whole, 2U) << at;
  }
}

}  // namespace
}  // namespace omniccl
