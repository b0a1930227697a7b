// Large memory that is to be written for the first time: a page fault for each 4 KiB of it costs
// more than all that we write.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace omniccl {

// Below this an allocator keeps what was freed, and its pages are there already.
constexpr std::size_t kHugePagesFrom = std::size_t{4} << 20;

// Asks for huge pages where `size` bytes at `address` have no pages yet. Nothing but speed and the
// memory's granularity change; a system that has none says no, which is no error.
inline void prefer_huge_pages(std::byte* address, std::size_t size) noexcept {
  if (size < kHugePagesFrom) return;
  static const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t lead = (kPage - reinterpret_cast<std::uintptr_t>(address) % kPage) % kPage;
  static_cast<void>(::madvise(address + lead, (size - lead) / kPage * kPage, MADV_HUGEPAGE));
}

}  // namespace omniccl
