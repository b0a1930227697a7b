#include <gtest/gtest.h>

#include "base/error.h"
#include "protocol/handshake.h"

namespace omniccl {
namespace {

struct Pair {
  SessionCredentials credentials = SessionCredentials::random();
  ShardHandshake shard{credentials, 1, 4};
  WorkerHandshake worker{credentials, {2, 1, 4}};
};

TEST(Handshake, AgreesWhenAllIsEqual) {
  Pair pair;
  const auto hello = pair.worker.hello();
  EXPECT_EQ(hello.size(), pair.shard.expected());
  const auto challenge = pair.shard.feed(hello);
  EXPECT_EQ(challenge.size(), pair.worker.expected());
  const auto proof = pair.worker.feed(challenge);
  EXPECT_EQ(proof.size(), pair.shard.expected());
  const auto verdict = pair.shard.feed(proof);
  EXPECT_EQ(verdict.size(), pair.worker.expected());
  EXPECT_TRUE(pair.worker.feed(verdict).empty());
  EXPECT_EQ(pair.worker.expected(), 0U);
  EXPECT_EQ(pair.shard.expected(), 0U);
  EXPECT_EQ(pair.shard.worker(), 2U);
}

// Whatever bit of whatever message is flipped on the way, one side throws before it believes.
TEST(Handshake, EveryFlippedBitIsFound) {
  const std::size_t hello_bits = Pair().worker.hello().size() * 8;
  for (std::size_t bit = 0; bit < hello_bits; ++bit) {
    Pair pair;
    auto hello = pair.worker.hello();
    hello[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(pair.worker.feed(pair.shard.feed(hello)), Error) << "hello, bit " << bit;
  }
  Pair first;
  const std::size_t challenge_bits = first.shard.feed(first.worker.hello()).size() * 8;
  for (std::size_t bit = 0; bit < challenge_bits; ++bit) {
    if (bit / 8 == 4 || bit / 8 == 5 || bit / 8 == 7)
      continue;  // version, reserved: information only
    Pair pair;
    auto challenge = pair.shard.feed(pair.worker.hello());
    challenge[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(pair.worker.feed(challenge), Error) << "challenge, bit " << bit;
  }
  for (std::size_t bit = 0; bit < 32 * 8; ++bit) {
    Pair pair;
    auto proof = pair.worker.feed(pair.shard.feed(pair.worker.hello()));
    auto verdict = pair.shard.feed(proof);
    verdict[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(pair.worker.feed(verdict), Error) << "verdict, bit " << bit;

    Pair other;
    proof = other.worker.feed(other.shard.feed(other.worker.hello()));
    proof[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(other.shard.feed(proof), Error) << "proof, bit " << bit;
  }
}

TEST(Handshake, AReplayedConversationFails) {
  Pair pair;
  const auto hello = pair.worker.hello();
  const auto proof = pair.worker.feed(pair.shard.feed(hello));
  ShardHandshake again(pair.credentials, 1, 4);
  again.feed(hello);
  EXPECT_THROW(again.feed(proof), Error);
}

TEST(Handshake, TheShardsOwnMacIsNoProof) {
  Pair pair;
  const auto challenge = pair.shard.feed(pair.worker.hello());
  const std::vector<std::byte> mac(challenge.end() - 32, challenge.end());
  EXPECT_THROW(pair.shard.feed(mac), Error);
}

TEST(Handshake, RefusalSaysWhy) {
  Pair pair;
  SessionCredentials other = pair.credentials;
  other.generation = 7;
  WorkerHandshake stranger(other, {2, 1, 4});
  EXPECT_THROW(pair.shard.feed(stranger.hello()), Error);
  try {
    stranger.feed(pair.shard.refusal());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another session"), std::string::npos);
  }
}

}  // namespace
}  // namespace omniccl
