// The secret that workers and daemons share, in a file that only its owner can read.
#pragma once

#include <string>

#include "protocol/handshake.h"

namespace omniccl {

// The key derived from the contents of `path`; white space at its end does not count, so that any
// editor and `openssl rand -hex 32` make one. Throws Error(kPrecondition), naming the file and the
// remedy, when it cannot be read, when others than its owner can read or write it, or when it holds
// fewer than 16 or more than 4,096 bytes.
SecretKey read_secret_file(const std::string& path);

}  // namespace omniccl
