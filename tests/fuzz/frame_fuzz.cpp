// The frame parser: as it is, and with the checksum made right so that what lies behind it is
// reached.
#include <cstring>
#include <vector>

#include "base/error.h"
#include "protocol/checksum.h"
#include "protocol/frame.h"

namespace {

constexpr std::size_t kChecksumOffset = 20;

void parse(omniccl::ByteSpan bytes) {
  try {
    const auto frame = omniccl::parse_frame(bytes, 1 << 20);
    if (frame && frame->head.size() > bytes.size() - omniccl::kFramePrefixBytes) __builtin_trap();
  } catch (const omniccl::Error&) {
    return;  // malformed, and noticed
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  parse(bytes);
  if (size < omniccl::kFramePrefixBytes) return 0;
  const std::uint32_t magic = 0x4E4D4F01;
  const auto head_bytes = static_cast<std::uint32_t>(size - omniccl::kFramePrefixBytes);
  std::memcpy(bytes.data(), &magic, sizeof magic);
  std::memcpy(bytes.data() + 8, &head_bytes, sizeof head_bytes);
  omniccl::Crc32c crc;
  const omniccl::ByteSpan all(bytes);
  crc.update(all.slice(0, kChecksumOffset));
  crc.update(all.slice(omniccl::kFramePrefixBytes, head_bytes));
  const std::uint32_t checksum = crc.value();
  std::memcpy(bytes.data() + kChecksumOffset, &checksum, sizeof checksum);
  parse(bytes);
  return 0;
}
