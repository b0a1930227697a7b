// A view of contiguous elements, as std::span is in C++20. slice() and at() check their bounds.
#pragma once

#include <cstddef>
#include <type_traits>

#include "base/error.h"

namespace omniccl {

template <typename T>
class Span {
 public:
  constexpr Span() noexcept = default;
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

  // From any contiguous container whose elements convert without a copy.
  template <typename Container,
            typename = std::enable_if_t<std::is_convertible_v<
                std::remove_pointer_t<decltype(std::declval<Container&>().data())> (*)[], T (*)[]>>>
  constexpr Span(Container&& container) noexcept  // NOLINT(bugprone-forwarding-reference-overload)
      : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }

  // Elements [offset, offset + count). Throws Error(kInvalidArgument) when that is not inside.
  constexpr Span slice(std::size_t offset, std::size_t count) const {
    if (offset > size_ || count > size_ - offset) {
      throw Error(ErrorKind::kInvalidArgument, "slice outside of its span");
    }
    return {data_ + offset, count};
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

using ByteSpan = Span<const std::byte>;
using MutableByteSpan = Span<std::byte>;

}  // namespace omniccl
