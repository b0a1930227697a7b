// libsodium, and what has to be called before anything else of it.
#pragma once

#include <sodium.h>

#include "base/error.h"

namespace omniccl {

// Costs nothing after the first call; any thread may make it. Throws Error.
inline void ensure_sodium() {
  if (::sodium_init() < 0) throw Error(ErrorKind::kSystem, "libsodium cannot be initialised");
}

}  // namespace omniccl
