// Page-aligned memory straight from the system: untouched pages cost nothing, and all of it goes
// back when the object does, whatever the allocator would keep.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace omniccl {

class MappedMemory {
 public:
  // Throws std::bad_alloc when there is not that much.
  explicit MappedMemory(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* const address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(address);
  }
  ~MappedMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  MappedMemory(MappedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

}  // namespace omniccl
