// Mutual authentication before any frame is parsed (docs/protocol.md, "Handshake").
//
// Both ends prove knowledge of the session key by HMAC-SHA-256 over everything that identifies the
// connection. Pure state: fed with bytes, answers with bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/span.h"

namespace omniccl {

inline constexpr std::uint16_t kProtocolVersion = 1;

struct SessionCredentials {
  std::array<std::uint8_t, 16> session_id{};  // not secret
  std::array<std::uint8_t, 32> key{};         // secret
  std::uint64_t generation = 0;               // counts a process's communicators for one group

  SessionCredentials() = default;
  SessionCredentials(const SessionCredentials&) = default;
  SessionCredentials& operator=(const SessionCredentials&) = default;
  ~SessionCredentials();  // wipes the key

  // A fresh session id and key from the system's random source.
  static SessionCredentials random();
};

// Which connection this is: a worker's to one shard.
struct ConnectionIdentity {
  std::uint32_t worker = 0;  // rank that connects
  std::uint32_t shard = 0;   // shard that it wants
  std::uint32_t size = 0;    // ranks in the session
};

// The connecting side. Feed it expected() bytes at a time; send what it returns.
class WorkerHandshake {
 public:
  WorkerHandshake(const SessionCredentials& credentials, ConnectionIdentity identity);

  std::vector<std::byte> hello() const;
  std::size_t expected() const;  // 0 when done
  // Throws Error(kPrecondition) when the shard refuses or has another key or version.
  std::vector<std::byte> feed(ByteSpan bytes);

 private:
  enum class State { kChallenge, kVerdict, kDone };

  const SessionCredentials& credentials_;
  std::vector<std::byte> transcript_;  // hello, then the shard's nonce
  State state_ = State::kChallenge;
};

// The accepting side.
class ShardHandshake {
 public:
  // `shard` and `size` are what this side is; `credentials` must outlive it.
  ShardHandshake(const SessionCredentials& credentials, std::uint32_t shard, std::uint32_t size);

  std::size_t expected() const;  // 0 when done
  // Returns what to send. Throws Error(kPeerFailure) for a peer that is not ours, after which
  // refusal() is what to send it before closing.
  std::vector<std::byte> feed(ByteSpan bytes);
  const std::vector<std::byte>& refusal() const { return refusal_; }
  // The authenticated worker, once expected() is 0.
  std::uint32_t worker() const { return worker_; }

 private:
  enum class State { kHello, kProof, kDone };

  std::vector<std::byte> on_hello(ByteSpan bytes);
  std::vector<std::byte> on_proof(ByteSpan bytes);
  [[noreturn]] void refuse(std::uint8_t reason, const std::string& text);

  const SessionCredentials& credentials_;
  std::uint32_t shard_;
  std::uint32_t size_;
  std::uint32_t worker_ = 0;
  std::vector<std::byte> transcript_;
  std::vector<std::byte> refusal_;
  State state_ = State::kHello;
};

}  // namespace omniccl
