// The only code that turns raw bytes into values and back: fixed-width, little-endian, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace omniccl {

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "omniccl supports little-endian hosts only"
#endif

// The error for bytes that break a rule of the protocol; its text follows on the peer's name.
inline Error malformed(const std::string& what) {
  return {ErrorKind::kPeerFailure, "sent a malformed frame: " + what};
}

// Text of a peer's as it may go to a log: printable ASCII, anything else as '?'.
inline std::string printable(ByteSpan bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto c = std::to_integer<unsigned char>(byte);
    text += c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?';
  }
  return text;
}

// Reads values one after the other; throws Error(kPeerFailure) past the end.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  template <typename T>
  T read() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  ByteSpan take(std::size_t size) {
    if (size > bytes_.size() - offset_) {
      throw malformed("it ends inside a field");
    }
    const ByteSpan part = bytes_.slice(offset_, size);
    offset_ += size;
    return part;
  }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  // Throws Error(kPeerFailure) unless everything was read.
  void expect_end() const {
    if (remaining() != 0) {
      throw malformed("it has bytes after its last field");
    }
  }

 private:
  ByteSpan bytes_;
  std::size_t offset_ = 0;
};

// Appends values to a vector.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  template <typename T>
  void write(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void append(ByteSpan bytes) {
    if (bytes.empty()) return;
    const std::size_t end = out_.size();
    out_.resize(end + bytes.size());
    std::memcpy(out_.data() + end, bytes.data(), bytes.size());
  }

 private:
  std::vector<std::byte>& out_;
};

}  // namespace omniccl
