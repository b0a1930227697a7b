// Shared memory: what goes through a ring, a peer that dies or lies, and what is left behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "transport/poller.h"
#include "transport/shm/shared_ring.h"
#include "transport/shm/shm_stream.h"

namespace omniccl {
namespace {

constexpr std::size_t kBytes = SharedRing::kMinBytes;
// Where the two counts lie in the memory (shared_ring.h).
constexpr std::size_t kWrittenAt = 0;
constexpr std::size_t kReadAt = 64;

std::pair<UniqueFd, UniqueFd> socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

UniqueFd duplicate(int descriptor) { return UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::vector<std::byte> random_bytes(std::size_t count, std::mt19937& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// The same memory cut into pieces of random lengths, empty ones among them.
std::vector<iovec> in_pieces(std::byte* memory, std::size_t size, std::mt19937& random) {
  std::vector<iovec> pieces;
  while (size != 0) {
    const std::size_t part = std::min<std::size_t>(size, random() % 3000);
    pieces.push_back({memory, part});
    memory += part;
    size -= part;
  }
  return pieces;
}

Span<const iovec> first(std::vector<iovec>& pieces) { return {pieces.data(), pieces.size()}; }

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerFailure) << error.what();
    return error.what();
  }
}

TEST(SharedRing, GivesOutWhatWasPutIn) {
  std::mt19937 random(1);
  SharedRing writer = SharedRing::create(kBytes);
  SharedRing reader = SharedRing::open(duplicate(writer.descriptor()));
  std::vector<std::byte> sent = random_bytes(20 * kBytes, random);
  std::vector<std::byte> received(sent.size());
  std::size_t put = 0;
  std::size_t taken = 0;
  while (taken < sent.size()) {
    auto from = in_pieces(sent.data() + put,
                          std::min<std::size_t>(random() % kBytes, sent.size() - put), random);
    const std::size_t room = writer.room();
    ASSERT_EQ(room, kBytes - (put - taken));
    put += writer.put(first(from));
    auto to =
        in_pieces(received.data() + taken,
                  std::min<std::size_t>(1 + random() % kBytes, received.size() - taken), random);
    taken += reader.take(first(to));
    ASSERT_EQ(reader.half_free(), put - taken <= kBytes / 2);
  }
  EXPECT_EQ(received, sent);
}

// Lays hands on the counts that the other side keeps in the memory.
void overwrite(const SharedRing& ring, std::size_t at, std::uint64_t value) {
  void* const memory =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(static_cast<std::byte*>(memory) + at, &value, sizeof value);
  ::munmap(memory, 4096);
}

TEST(SharedRing, BelievesNoCountThatCannotBe) {
  std::array<std::byte, 100> bytes{};
  const std::array<iovec, 1> pieces{iovec{bytes.data(), bytes.size()}};
  for (const std::uint64_t lie : {std::uint64_t{kBytes + 101}, std::uint64_t{1} << 63U}) {
    SharedRing writer = SharedRing::create(kBytes);
    SharedRing reader = SharedRing::open(duplicate(writer.descriptor()));
    ASSERT_EQ(writer.put(pieces), 100U);
    ASSERT_EQ(reader.take(pieces), 100U);
    for (const std::uint64_t written : {lie, std::uint64_t{99}}) {
      overwrite(writer, kWrittenAt, written);
      EXPECT_NE(error_of([&] { reader.take(pieces); }), "") << written;
    }
    overwrite(writer, kReadAt, lie);
    EXPECT_NE(error_of([&] { writer.put(pieces); }), "") << lie;
    EXPECT_NE(error_of([&] { static_cast<void>(writer.room()); }), "") << lie;
  }
}

UniqueFd memory_of(std::size_t size, int seals) {
  UniqueFd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(memory.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

TEST(SharedRing, IsNothingElseThanSealedMemoryOfItsSize) {
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const auto error = [](UniqueFd memory) {
    return error_of([&] { SharedRing::open(std::move(memory)); });
  };
  EXPECT_EQ(error(memory_of(4096 + kBytes, kSealed)), "");
  EXPECT_NE(error(memory_of(4096 + kBytes, F_SEAL_GROW)), "");
  EXPECT_NE(error(memory_of(4096 + kBytes, F_SEAL_SHRINK | F_SEAL_SEAL)), "");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, kBytes, 4096 + kBytes + 1,
        4096 + 3 * kBytes, 4096 + 2 * SharedRing::kMaxBytes, std::size_t{1} << 40U}) {
    EXPECT_NE(error(memory_of(size, kSealed)), "") << size;
  }
  EXPECT_NE(error(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))), "");
  EXPECT_NE(error(socket_pair().first), "");
}

// Two streams, each with the other's ring.
struct Streams {
  std::pair<UniqueFd, UniqueFd> sockets = socket_pair();
  std::optional<ShmStream> near{std::in_place, std::move(sockets.first), kBytes};
  std::optional<ShmStream> far{std::in_place, std::move(sockets.second), kBytes};
};

std::vector<std::byte> read_all(ShmStream& stream, std::size_t most) {
  std::vector<std::byte> bytes(most);
  const std::array<iovec, 1> piece{iovec{bytes.data(), bytes.size()}};
  bytes.resize(stream.read(piece));
  return bytes;
}

std::size_t write_all(ShmStream& stream, std::vector<std::byte>& bytes) {
  const std::array<iovec, 1> piece{iovec{bytes.data(), bytes.size()}};
  return stream.write(piece);
}

// Both sides wait for the poller alone: a wake-up that was lost would be waited for in vain.
TEST(ShmStream, CarriesBothDirectionsAtOnce) {
  constexpr std::size_t kTotal = std::size_t{8} << 20;
  Streams streams;
  const auto side = [&](ShmStream& stream, unsigned out_seed, unsigned in_seed) {
    std::mt19937 random(out_seed);
    std::vector<std::byte> out = random_bytes(kTotal, random);
    std::mt19937 other(in_seed);
    const std::vector<std::byte> expected = random_bytes(kTotal, other);
    std::vector<std::byte> in(kTotal);
    Poller poller;
    poller.add(stream.descriptor(), 0, stream.interest({true, true}));
    std::size_t sent = 0;
    std::size_t got = 0;
    while (sent < kTotal || got < kTotal) {
      std::size_t more = 0;
      do {
        const std::array<iovec, 1> piece{iovec{in.data() + got, kTotal - got}};
        more = got < kTotal ? stream.read(piece) : 0;
        got += more;
      } while (more != 0);
      auto pieces = in_pieces(out.data() + sent, std::min(kTotal - sent, 3 * kBytes), random);
      if (!pieces.empty()) sent += stream.write(first(pieces));
      if (sent < kTotal || got < kTotal) {
        const auto events = poller.wait(std::chrono::seconds{20});
        ASSERT_EQ(events.size(), 1U) << "a wake-up was lost: " << sent << " sent, " << got;
      }
    }
    EXPECT_EQ(in, expected);
  };
  std::thread other([&] { side(*streams.far, 2, 1); });
  side(*streams.near, 1, 2);
  other.join();
}

TEST(ShmStream, GivesOutAllThatWasWrittenBeforeTheEnd) {
  Streams streams;
  std::mt19937 random(3);
  std::vector<std::byte> bytes = random_bytes(5000, random);
  ASSERT_EQ(write_all(*streams.near, bytes), bytes.size());
  streams.near.reset();
  EXPECT_EQ(read_all(*streams.far, 10'000), bytes);
  EXPECT_EQ(streams.far->closed_because(), "");
  EXPECT_TRUE(read_all(*streams.far, 10'000).empty());
  EXPECT_NE(streams.far->closed_because().find("did its process end?"), std::string::npos);
}

TEST(ShmStream, SaysThatThePeerIsGoneWhenItWrites) {
  Streams streams;
  std::vector<std::byte> bytes(100);
  ASSERT_EQ(write_all(*streams.far, bytes), 100U);
  ASSERT_EQ(read_all(*streams.near, 200).size(), 100U);
  ASSERT_TRUE(read_all(*streams.near, 200).empty());  // it sleeps now: the next byte wakes it
  streams.near.reset();
  EXPECT_NE(error_of([&] { write_all(*streams.far, bytes); }), "");
}

TEST(ShmStream, ThatReadsNoMoreHearsOfRoomAllTheSame) {
  Streams streams;
  streams.near->stop_reading();
  std::vector<std::byte> bytes(3 * kBytes);
  Poller poller;
  poller.add(streams.near->descriptor(), 0, streams.near->interest({false, true}));
  ASSERT_EQ(write_all(*streams.near, bytes), kBytes);
  ASSERT_EQ(write_all(*streams.near, bytes), 0U);
  ASSERT_TRUE(poller.wait(Nanoseconds{0}).empty());
  EXPECT_EQ(read_all(*streams.far, kBytes).size(), kBytes);
  ASSERT_EQ(poller.wait(Nanoseconds{0}).size(), 1U);
  EXPECT_EQ(write_all(*streams.near, bytes), kBytes);
}

void send_with(int socket, const std::vector<int>& descriptors) {
  std::byte wake{1};
  iovec piece{&wake, 1};
  std::vector<std::byte> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), 1);
}

TEST(ShmStream, RefusesASecondRingAndKeepsNoDescriptor) {
  const std::size_t before = open_descriptors();
  {
    auto [near, far] = socket_pair();
    ShmStream stream(std::move(near), kBytes);
    const SharedRing ring = SharedRing::create(kBytes);
    send_with(far.get(), {ring.descriptor()});
    EXPECT_EQ(error_of([&] { read_all(stream, 10); }), "");
    send_with(far.get(), {ring.descriptor()});
    EXPECT_NE(error_of([&] { read_all(stream, 10); }), "");
  }
  {
    auto [near, far] = socket_pair();
    ShmStream stream(std::move(near), kBytes);
    const SharedRing ring = SharedRing::create(kBytes);
    send_with(far.get(), std::vector<int>(20, ring.descriptor()));
    EXPECT_NE(error_of([&] { read_all(stream, 10); }), "");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ShmStream, BearsAnyNumberOfWakeUps) {
  auto [near, far] = socket_pair();
  ShmStream stream(std::move(near), kBytes);
  std::vector<std::byte> noise(100'000);
  while (::send(far.get(), noise.data(), noise.size(), MSG_DONTWAIT) > 0) {
  }
  EXPECT_TRUE(read_all(stream, 10).empty());
  EXPECT_EQ(stream.closed_because(), "");
}

// However the other process ends, what it wrote arrives, and nothing of it stays.
TEST(ShmStream, OutlivesAKilledPeer) {
  auto [near, far] = socket_pair();
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    near.reset();
    ShmStream stream(std::move(far), kBytes);
    std::vector<std::byte> bytes(777, std::byte{7});
    write_all(stream, bytes);
    char byte = 0;
    static_cast<void>(::read(go[0], &byte, 1));
    ::raise(SIGKILL);
  }
  far.reset();
  ShmStream stream(std::move(near), kBytes);
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(read_all(stream, 1000), std::vector<std::byte>(777, std::byte{7}));
  EXPECT_TRUE(read_all(stream, 1000).empty());
  EXPECT_NE(stream.closed_because(), "");
  for (const int end : go) ::close(end);
}

}  // namespace
}  // namespace omniccl
