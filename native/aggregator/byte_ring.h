// A fixed buffer whose pieces are taken in order and given back in order, each of them contiguous.
#pragma once

#include <cstddef>
#include <deque>

#include "base/mapped_memory.h"
#include "base/span.h"

namespace omniccl {

class ByteRing {
 public:
  // Pieces of at most P bytes always fit while at most `capacity` - P bytes are out: less than P
  // bytes at the end stay unused when a piece goes to the beginning.
  explicit ByteRing(std::size_t capacity) : buffer_(capacity) {}

  // Room for `size` bytes after the last piece; an empty span with a null data() when there is
  // none.
  MutableByteSpan take(std::size_t size) {
    std::size_t offset = 0;
    if (!pieces_.empty()) {
      const std::size_t head = pieces_.front().offset;
      const std::size_t tail = pieces_.back().offset + pieces_.back().size;
      if (wrapped_) {
        if (head - tail < size) return {};
        offset = tail;
      } else if (buffer_.size() - tail >= size) {
        offset = tail;
      } else if (head >= size) {
        wrapped_ = true;
      } else {
        return {};
      }
    } else {
      wrapped_ = false;
      if (size > buffer_.size()) return {};
    }
    pieces_.push_back({offset, size});
    return {buffer_.data() + offset, size};
  }

  // Gives the oldest piece back.
  void release_oldest() {
    const std::size_t offset = pieces_.front().offset;
    pieces_.pop_front();
    if (pieces_.empty() || pieces_.front().offset < offset) wrapped_ = false;
  }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t size;
  };

  MappedMemory buffer_;
  std::deque<Piece> pieces_;
  bool wrapped_ = false;  // the newest pieces lie before the oldest
};

}  // namespace omniccl
