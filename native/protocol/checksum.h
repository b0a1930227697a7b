// CRC32C (Castagnoli), by ISA-L with the processor's instructions.
#pragma once

#include <sys/uio.h>

#include <cstdint>

#include "base/span.h"

namespace omniccl {

class Crc32c {
 public:
  void update(ByteSpan bytes);
  void update(Span<const iovec> pieces);
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = ~std::uint32_t{0};
};

// Of the pieces one after the other.
inline std::uint32_t crc32c(Span<const iovec> pieces) {
  Crc32c crc;
  crc.update(pieces);
  return crc.value();
}

}  // namespace omniccl
