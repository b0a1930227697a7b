#include "protocol/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "protocol/sodium.h"

namespace omniccl {
namespace {

constexpr std::size_t kMinSecretBytes = 16;
constexpr std::size_t kMaxSecretBytes = 4096;
// Separates this use of the secret from any other.
constexpr std::string_view kLabel = "omniccl secret file, version 1";

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorKind::kPrecondition, "the secret file " + path + " " + why};
}

struct Secret {
  std::array<unsigned char, kMaxSecretBytes + 1> bytes{};
  std::size_t size = 0;

  ~Secret() { sodium_memzero(bytes.data(), bytes.size()); }
};

void read_all(int file, const std::string& path, Secret& secret) {
  while (secret.size < secret.bytes.size()) {
    const ssize_t got =
        ::read(file, secret.bytes.data() + secret.size, secret.bytes.size() - secret.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw unusable(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) return;
    secret.size += static_cast<std::size_t>(got);
  }
  throw unusable(path, "is longer than " + std::to_string(kMaxSecretBytes) + " bytes");
}

bool is_space(unsigned char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; }

}  // namespace

SecretKey read_secret_file(const std::string& path) {
  ensure_sodium();
  // O_NONBLOCK: a named pipe must not hold us up. It does nothing for a file.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw unusable(path, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw unusable(path, "is not a regular file");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw unusable(path,
                   "can be read or written by others than its owner; type: chmod 600 " + path);
  }
  Secret secret;
  read_all(file.get(), path, secret);
  while (secret.size != 0 && is_space(secret.bytes[secret.size - 1])) --secret.size;
  if (secret.size < kMinSecretBytes) {
    throw unusable(path, "holds fewer than " + std::to_string(kMinSecretBytes) +
                             " bytes; make one: (umask 077; openssl rand -hex 32 > " + path + ")");
  }
  SecretKey key;
  crypto_generichash(key.data(), key.size(), secret.bytes.data(), secret.size,
                     reinterpret_cast<const unsigned char*>(kLabel.data()), kLabel.size());
  return key;
}

}  // namespace omniccl
