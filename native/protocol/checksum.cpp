#include "protocol/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace omniccl {

void Crc32c::update(ByteSpan bytes) {
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;  // ISA-L takes the length as an int
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kMaxPiece);
    // ISA-L's prototype lacks a const; it only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state_ = crc32_iscsi(data, static_cast<int>(size), state_);
    bytes = bytes.slice(size, bytes.size() - size);
  }
}

void Crc32c::update(Span<const iovec> pieces) {
  for (const iovec& piece : pieces) {
    update(ByteSpan(static_cast<const std::byte*>(piece.iov_base), piece.iov_len));
  }
}

}  // namespace omniccl
