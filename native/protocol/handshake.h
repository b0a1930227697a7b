// Mutual authentication before any frame is parsed (docs/protocol.md, "Handshake").
//
// Both ends prove knowledge of a key by HMAC-SHA-256 over everything that identifies the
// connection. Pure state: fed with bytes, answers with bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/span.h"

namespace omniccl {

inline constexpr std::uint16_t kProtocolVersion = 1;

using SessionId = std::array<std::uint8_t, 16>;
using SecretKey = std::array<std::uint8_t, 32>;

struct SessionCredentials {
  SessionId session_id{};        // not secret
  SecretKey key{};               // secret
  std::uint64_t generation = 0;  // counts a process's communicators for one group

  SessionCredentials() = default;
  SessionCredentials(const SessionCredentials&) = default;
  SessionCredentials& operator=(const SessionCredentials&) = default;
  ~SessionCredentials();  // wipes the key

  // A fresh session id and key from the system's random source.
  static SessionCredentials random();
};

// What all ranks of a session must say alike.
struct SessionTerms {
  std::uint32_t size = 1;    // ranks
  std::uint32_t shards = 1;  // over which the chunks are spread
  bool payload_checksum = true;
  std::uint64_t slot_memory_bytes = 0;  // of each shard; 0 for the default
};

// What these and `other` differ in, as "<what> <these> and <other's>"; nothing if they are equal.
std::optional<std::string> difference(const SessionTerms& terms, const SessionTerms& other);

// What the connecting side says it is. Every MAC covers it.
struct Hello {
  enum class Role : std::uint8_t {
    kWorker = 1,  // of a rank
    kProbe = 2,   // only asks whether it would be let in
  };

  Role role = Role::kWorker;
  std::uint32_t worker = 0;  // rank that connects
  std::uint32_t shard = 0;   // shard that it wants
  SessionTerms terms;
  std::uint32_t timeout_ms = 0;          // see CommunicatorConfig; for a shard that keeps time
  std::uint32_t connect_timeout_ms = 0;  // likewise
  SessionId session_id{};
  std::uint64_t generation = 0;
};

// The connecting side. Feed it expected() bytes at a time; send what it returns.
class WorkerHandshake {
 public:
  // `key` must outlive it.
  WorkerHandshake(const SecretKey& key, const Hello& hello);

  std::vector<std::byte> hello() const;
  std::size_t expected() const;  // 0 when done
  // Throws Error(kPrecondition) when the shard refuses or has another key or version.
  std::vector<std::byte> feed(ByteSpan bytes);

 private:
  enum class State { kChallenge, kVerdict, kDone };

  std::vector<std::byte> on_challenge(ByteSpan bytes);
  void on_verdict(ByteSpan bytes);

  const SecretKey& key_;
  std::vector<std::byte> transcript_;  // hello, then the shard's nonce
  State state_ = State::kChallenge;
};

// Who decides on the accepting side.
class Admission {
 public:
  // Whether the session of `hello`, which nobody has proved yet, is one to talk about.
  virtual bool knows(const Hello& hello) const = 0;
  // `hello` is authentic: takes it in. Throws Error to refuse; its sender is told the text, which
  // follows on the name of this side ("it ...").
  virtual void admit(const Hello& hello) = 0;

 protected:
  ~Admission() = default;
};

// The accepting side.
class ShardHandshake {
 public:
  // Both must outlive it.
  ShardHandshake(const SecretKey& key, Admission& admission);

  std::size_t expected() const;  // 0 when done
  // Returns what to send. Throws Error(kPeerFailure) for a peer that is not ours or not admitted,
  // after which refusal() is what to send it before closing.
  std::vector<std::byte> feed(ByteSpan bytes);
  const std::vector<std::byte>& refusal() const { return refusal_; }
  // What the peer is; authentic once expected() is 0.
  const Hello& peer() const { return peer_; }

 private:
  enum class State { kHello, kProof, kDone };

  std::vector<std::byte> on_hello(ByteSpan bytes);
  std::vector<std::byte> on_proof(ByteSpan bytes);
  std::vector<std::byte> verdict(std::uint8_t status, const std::string& text) const;
  [[noreturn]] void refuse(std::uint8_t reason, const std::string& text);

  const SecretKey& key_;
  Admission& admission_;
  Hello peer_;
  std::vector<std::byte> transcript_;
  std::vector<std::byte> refusal_;
  State state_ = State::kHello;
};

}  // namespace omniccl
