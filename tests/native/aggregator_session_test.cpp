#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>

#include "aggregator/byte_ring.h"
#include "aggregator/session.h"
#include "base/error.h"
#include "encoder/block_bitmap.h"
#include "protocol/limits.h"

namespace omniccl {
namespace {

TEST(ByteRing, KeepsPiecesApartAndNeverRunsOutWithinItsPromise) {
  constexpr std::size_t kCapacity = 1000;
  constexpr std::size_t kLargest = 300;
  std::mt19937_64 random(3);
  ByteRing ring(kCapacity);
  std::deque<std::pair<MutableByteSpan, std::byte>> out;
  std::size_t bytes_out = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t size = random() % (kLargest + 1);
    if (bytes_out + size <= kCapacity - kLargest && random() % 3 != 0) {
      const MutableByteSpan piece = ring.take(size);
      ASSERT_NE(piece.data(), nullptr) << "step " << step;
      const auto mark = static_cast<std::byte>(step);
      std::fill(piece.begin(), piece.end(), mark);
      out.emplace_back(piece, mark);
      bytes_out += size;
    } else if (!out.empty()) {
      for (const std::byte byte : out.front().first) ASSERT_EQ(byte, out.front().second);
      bytes_out -= out.front().first.size();
      out.pop_front();
      ring.release_oldest();
    }
  }
}

TEST(ByteRing, SaysWhenItIsFull) {
  ByteRing ring(100);
  EXPECT_EQ(ring.take(101).data(), nullptr);
  ASSERT_NE(ring.take(60).data(), nullptr);
  EXPECT_EQ(ring.take(60).data(), nullptr);
  ring.release_oldest();
  EXPECT_NE(ring.take(100).data(), nullptr);
}

ContributionMessage message(std::uint32_t chunk, bool nonzero, std::uint32_t elements = 4) {
  ContributionMessage result;
  result.chunk = chunk;
  result.blocks = 1;
  result.segments = {{1, elements, elements}};
  result.bitmap.assign(1, nonzero ? std::byte{1} : std::byte{0});
  return result;
}

class SessionOf2 : public ::testing::Test {
 protected:
  void contribute(std::uint32_t rank, std::uint32_t chunk, std::vector<float> values) {
    ContributionMessage head = message(chunk, !values.empty());
    const auto bytes = static_cast<std::uint32_t>(values.size() * sizeof(float));
    const MutableByteSpan room = session.reserve(rank, head, bytes);
    if (bytes != 0) std::memcpy(room.data(), values.data(), bytes);
    session.commit(rank);
  }
  static std::vector<float> sums(const ChunkSum& sum) {
    std::vector<float> values(sum.sums.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), sum.sums.data(), sum.sums.size());
    return values;
  }

  SlotMemory memory = SlotMemory::embedded(64 * 1024, 2);
  Session session{2, memory, find_kernels("scalar")};
};

TEST_F(SessionOf2, SumsWhenEveryRankHasContributed) {
  contribute(1, 0, {1, 2, 3, 4});
  EXPECT_TRUE(session.waits_only_for(0));
  EXPECT_TRUE(session.waits_for(0));
  EXPECT_FALSE(session.waits_for(1));
  EXPECT_EQ(session.reduce(), nullptr);
  contribute(0, 0, {10, 20, 30, 40});
  const ChunkSum* sum = session.reduce();
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(sums(*sum), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(sum->exclusive[0][0], std::byte{0});
  session.release(sum->ticket);
  EXPECT_EQ(session.reduce(), nullptr);
}

TEST_F(SessionOf2, TellsWhoseBlocksAreExclusive) {
  contribute(0, 0, {});
  contribute(1, 0, {1, 2, 3, 4});
  const ChunkSum* sum = session.reduce();
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(sum->united[0], std::byte{1});
  EXPECT_EQ(sum->exclusive[0][0], std::byte{0});
  EXPECT_EQ(sum->exclusive[1][0], std::byte{1});
}

TEST_F(SessionOf2, AnUnfinishedContributionDoesNotCount) {
  contribute(1, 0, {});
  ContributionMessage head = message(0, true);
  session.reserve(0, head, 16);
  EXPECT_EQ(session.reduce(), nullptr);
  session.commit(0);
  EXPECT_NE(session.reduce(), nullptr);
}

TEST_F(SessionOf2, SaysWhatDoesNotMatch) {
  const auto refusal = [&](void (*change)(ContributionMessage&)) {
    Session fresh(2, memory, find_kernels("scalar"));
    for (const std::uint32_t rank : {0U, 1U}) {
      ContributionMessage head = message(0, false);
      if (rank == 1) change(head);
      fresh.reserve(rank, head, 0);
      fresh.commit(rank);
    }
    try {
      fresh.reduce();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto ends_with = [](const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
  };
  EXPECT_PRED2(ends_with, refusal([](ContributionMessage& m) { m.operation = 2; }),
               "operation 0 and 2");
  EXPECT_PRED2(ends_with, refusal([](ContributionMessage& m) { m.chunk = 2; }), "chunk 0 and 2");
  EXPECT_PRED2(ends_with, refusal([](ContributionMessage& m) { m.dtype = DataType::kInt64; }),
               "dtype float32 and int64");
  EXPECT_PRED2(ends_with, refusal([](ContributionMessage& m) { m.prescale = 1e-7; }),
               "prescale factor 1 and 9.9999999999999995e-08");
  EXPECT_PRED2(ends_with, refusal([](ContributionMessage& m) {
                 m.segments = {{1, 5, 5}};
               }),
               "4 elements in blocks of 4 and 5 elements in blocks of 5");
}

TEST_F(SessionOf2, RefusesAPayloadThatDoesNotFitTheBitmap) {
  ContributionMessage head = message(0, true);
  EXPECT_THROW(session.reserve(0, head, 12), Error);
  ContributionMessage empty = message(0, false);
  EXPECT_THROW(session.reserve(0, empty, 16), Error);
}

TEST_F(SessionOf2, RefusesMoreThanTheWindow) {
  const auto elements = static_cast<std::uint32_t>(memory.chunk_bytes / sizeof(float));
  const auto overrun = [&] {
    for (int i = 0; i < 10; ++i) {
      ContributionMessage head = message(0, true, elements);
      session.reserve(0, head, static_cast<std::uint32_t>(memory.chunk_bytes));
      session.commit(0);
    }
  };
  EXPECT_THROW(overrun(), Error);
  const auto too_many = [&] {
    for (std::uint32_t i = 0; i <= kMaxChunksInFlight; ++i) contribute(1, i, {});
  };
  EXPECT_THROW(too_many(), Error);
}

TEST_F(SessionOf2, WaitsForRoomForItsResults) {
  const auto elements = static_cast<std::uint32_t>(memory.chunk_bytes / sizeof(float));
  std::deque<std::uint64_t> tickets;
  for (std::uint32_t chunk = 0; chunk < 20; ++chunk) {
    for (const std::uint32_t rank : {0U, 1U}) {
      ContributionMessage head = message(chunk, true, elements);
      const auto room = session.reserve(rank, head, static_cast<std::uint32_t>(memory.chunk_bytes));
      std::memset(room.data(), 0, room.size());
      session.commit(rank);
    }
    const ChunkSum* sum = session.reduce();
    if (sum == nullptr) {
      ASSERT_FALSE(tickets.empty());
      for (int rank = 0; rank < 2; ++rank) session.release(tickets.front());
      tickets.pop_front();
      sum = session.reduce();
    }
    ASSERT_NE(sum, nullptr);
    tickets.push_back(sum->ticket);
  }
  EXPECT_LE(tickets.size(), memory.ring_bytes / memory.chunk_bytes);
}

}  // namespace
}  // namespace omniccl
