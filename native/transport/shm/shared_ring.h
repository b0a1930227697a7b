// A ring of bytes in memory that two processes share: one writes, the other reads.
//
// The memory has no name and no file system: it is there as long as a process has it open or
// mapped, however that process ends, and only whom its descriptor was handed to can reach it.
//
// The other side is not trusted with anything but its own bytes: each end keeps its own count of
// bytes and checks the other's, and nothing is used where it lies in the ring.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "base/unique_fd.h"

namespace omniccl {

class SharedRing {
 public:
  // Bytes that a ring may hold: a power of two between these.
  static constexpr std::size_t kMinBytes = std::size_t{16} * 1024;
  static constexpr std::size_t kMaxBytes = std::size_t{4} * 1024 * 1024;

  // Makes one for so many bytes. Throws Error(kSystem) when the system has no such memory.
  static SharedRing create(std::size_t bytes);
  // Maps the one behind a descriptor that a peer sent. Throws Error(kPeerFailure) when it is
  // anything but a ring whose size nobody can change.
  static SharedRing open(UniqueFd memory);
  ~SharedRing();
  SharedRing(SharedRing&& other) noexcept;
  SharedRing& operator=(SharedRing&& other) = delete;
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  int descriptor() const { return memory_.get(); }

  // Writer: copies in what there is room for. Reader: copies out what there is. Both return the
  // bytes, and throw Error(kPeerFailure) when the other side's count is impossible.
  std::size_t put(Span<const iovec> pieces);
  std::size_t take(Span<const iovec> pieces);
  // Writer: bytes that there is room for; as put(), when it throws too.
  std::size_t room() const;
  // Reader: whether half of it is free at least.
  bool half_free() const;

  // One side says that it goes to sleep until the other has put in, or taken out, something; and
  // looks once more after that, as what happened before was told to nobody. The other side asks
  // after each step whether it has to wake it.
  void reader_sleeps() { shared_->reader_sleeps.store(1); }
  void writer_sleeps() { shared_->writer_sleeps.store(1); }
  bool wake_reader() { return wake(shared_->reader_sleeps); }
  bool wake_writer() { return wake(shared_->writer_sleeps); }

 private:
  // At the beginning of the memory. Each word in a cache line of its own.
  struct Shared {
    alignas(64) std::atomic<std::uint64_t> written;  // bytes, since the beginning
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) std::atomic<std::uint32_t> reader_sleeps;
    alignas(64) std::atomic<std::uint32_t> writer_sleeps;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedRing(UniqueFd memory, void* address, std::size_t bytes);

  // Looks before it takes the word: mostly nobody sleeps, and its cache line stays shared.
  static bool wake(std::atomic<std::uint32_t>& sleeps) {
    return sleeps.load() != 0 && sleeps.exchange(0) != 0;
  }

  UniqueFd memory_;
  pid_t owner_;  // the process that mapped it
  std::size_t bytes_;
  Shared* shared_;
  std::byte* data_;
  std::uint64_t position_ = 0;  // of this end
};

}  // namespace omniccl
