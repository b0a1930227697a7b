// What tells one shard of one job from all others on a daemon.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "protocol/handshake.h"

namespace omniccl {

struct JobKey {
  SessionId session_id{};
  std::uint64_t generation = 0;
  std::uint32_t shard = 0;

  static JobKey of(const Hello& hello) { return {hello.session_id, hello.generation, hello.shard}; }
  friend bool operator<(const JobKey& a, const JobKey& b) {
    return std::tie(a.session_id, a.generation, a.shard) <
           std::tie(b.session_id, b.generation, b.shard);
  }
  // "session 3f2a91c0, shard 0", for messages. The session id is no secret.
  std::string to_string() const {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text = "session ";
    for (std::size_t i = 0; i < 4; ++i) {
      text += kDigits[session_id[i] >> 4];
      text += kDigits[session_id[i] & 15];
    }
    return text + ", shard " + std::to_string(shard);
  }
};

}  // namespace omniccl
