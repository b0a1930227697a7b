// What a user may choose to carry the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace omniccl {

enum class Transport : std::uint8_t {
  kAuto,  // shared memory to peers on this host, TCP to others
  kTcp,   // TCP to all
  kShm,   // shared memory to all; an error where a peer is on another host
};

// Throws Error(kInvalidArgument) for any other name than auto, tcp and shm.
inline Transport transport_named(std::string_view name) {
  if (name == "auto") return Transport::kAuto;
  if (name == "tcp") return Transport::kTcp;
  if (name == "shm") return Transport::kShm;
  throw Error(ErrorKind::kInvalidArgument, "unknown transport '" + std::string(name) + "'");
}

}  // namespace omniccl
