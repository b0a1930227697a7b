#include <gtest/gtest.h>

#include "base/error.h"
#include "protocol/handshake.h"

namespace omniccl {
namespace {

constexpr std::size_t kVerdictMessageBytes = 512;

// Serves one session, and refuses what `refusal` says.
class OneSession : public Admission {
 public:
  explicit OneSession(const SessionId& id) : id_(id) {}
  bool knows(const Hello& hello) const override { return hello.session_id == id_; }
  void admit(const Hello&) override {
    if (!refusal.empty()) throw Error(ErrorKind::kPrecondition, refusal);
    ++admitted;
  }

  std::string refusal;
  int admitted = 0;

 private:
  SessionId id_;
};

Hello hello_of(const SessionCredentials& credentials) {
  Hello hello;
  hello.worker = 2;
  hello.shard = 1;
  hello.terms.size = 4;
  hello.terms.shards = 3;
  hello.terms.slot_memory_bytes = 1'000'000;
  hello.terms.payload_checksum = false;
  hello.timeout_ms = 30'000;
  hello.connect_timeout_ms = 10'000;
  hello.session_id = credentials.session_id;
  hello.generation = 5;
  return hello;
}

struct Pair {
  SessionCredentials credentials = SessionCredentials::random();
  OneSession admission{credentials.session_id};
  ShardHandshake shard{credentials.key, admission};
  WorkerHandshake worker{credentials.key, hello_of(credentials)};
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
  EXPECT_EQ(pair.admission.admitted, 1);
  const Hello expected_peer = hello_of(pair.credentials);
  const Hello& peer = pair.shard.peer();
  EXPECT_EQ(peer.role, Hello::Role::kWorker);
  EXPECT_EQ(peer.worker, expected_peer.worker);
  EXPECT_EQ(peer.shard, expected_peer.shard);
  EXPECT_EQ(difference(peer.terms, expected_peer.terms), std::nullopt);
  EXPECT_EQ(peer.timeout_ms, expected_peer.timeout_ms);
  EXPECT_EQ(peer.connect_timeout_ms, expected_peer.connect_timeout_ms);
  EXPECT_EQ(peer.session_id, expected_peer.session_id);
  EXPECT_EQ(peer.generation, expected_peer.generation);
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
  for (std::size_t bit = 0; bit < (kVerdictMessageBytes + 32) * 8; ++bit) {
    Pair pair;
    auto verdict = pair.shard.feed(pair.worker.feed(pair.shard.feed(pair.worker.hello())));
    verdict[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(pair.worker.feed(verdict), Error) << "verdict, bit " << bit;
  }
  for (std::size_t bit = 0; bit < 32 * 8; ++bit) {
    Pair other;
    auto proof = other.worker.feed(other.shard.feed(other.worker.hello()));
    proof[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_THROW(other.shard.feed(proof), Error) << "proof, bit " << bit;
  }
}

TEST(Handshake, AReplayedConversationFails) {
  Pair pair;
  const auto hello = pair.worker.hello();
  const auto proof = pair.worker.feed(pair.shard.feed(hello));
  ShardHandshake again(pair.credentials.key, pair.admission);
  again.feed(hello);
  EXPECT_THROW(again.feed(proof), Error);
  EXPECT_EQ(pair.admission.admitted, 0);
}

TEST(Handshake, TheShardsOwnMacIsNoProof) {
  Pair pair;
  const auto challenge = pair.shard.feed(pair.worker.hello());
  const std::vector<std::byte> mac(challenge.end() - 32, challenge.end());
  EXPECT_THROW(pair.shard.feed(mac), Error);
}

std::string refusal_of(WorkerHandshake& worker, const ShardHandshake& shard) {
  try {
    worker.feed(shard.refusal());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecondition);
    return error.what();
  }
}

TEST(Handshake, RefusalOfAnUnknownSessionSaysSo) {
  Pair pair;
  Hello other = hello_of(pair.credentials);
  other.session_id[3] ^= 1;
  WorkerHandshake stranger(pair.credentials.key, other);
  EXPECT_THROW(pair.shard.feed(stranger.hello()), Error);
  EXPECT_NE(refusal_of(stranger, pair.shard).find("another session"), std::string::npos);
}

TEST(Handshake, RefusalByTheOwnerOfTheSessionSaysWhatItSays) {
  for (const std::string& text : {std::string("it is full"), std::string(2000, 'x')}) {
    Pair pair;
    pair.admission.refusal = text;
    const auto proof = pair.worker.feed(pair.shard.feed(pair.worker.hello()));
    EXPECT_THROW(pair.shard.feed(proof), Error);
    EXPECT_EQ(refusal_of(pair.worker, pair.shard), text.substr(0, kVerdictMessageBytes - 1));
    EXPECT_NE(pair.worker.expected(), 0U);
  }
}

TEST(Handshake, AProbeIsAProbe) {
  Pair pair;
  Hello probe = hello_of(pair.credentials);
  probe.role = Hello::Role::kProbe;
  WorkerHandshake worker(pair.credentials.key, probe);
  worker.feed(pair.shard.feed(worker.feed(pair.shard.feed(worker.hello()))));
  EXPECT_EQ(pair.shard.peer().role, Hello::Role::kProbe);
}

TEST(SessionTerms, DifferencesShowBothValues) {
  const SessionTerms terms = hello_of({}).terms;
  SessionTerms other = terms;
  EXPECT_EQ(difference(terms, other), std::nullopt);
  other.size = 17;
  EXPECT_EQ(difference(terms, other), "numbers of ranks 4 and 17");
  other = terms;
  other.payload_checksum = true;
  EXPECT_NE(difference(terms, other)->find("off and on"), std::string::npos);
  other = terms;
  other.slot_memory_bytes = 0;
  EXPECT_NE(difference(terms, other)->find("OMNICCL_SLOT_MEMORY"), std::string::npos);
  other = terms;
  other.shards = 2;
  EXPECT_EQ(difference(terms, other), "numbers of shards 3 and 2");
}

}  // namespace
}  // namespace omniccl
