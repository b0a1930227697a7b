#include "transport/shm/shared_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace omniccl {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

bool is_possible(std::size_t bytes) {
  return bytes >= SharedRing::kMinBytes && bytes <= SharedRing::kMaxBytes &&
         (bytes & (bytes - 1)) == 0;
}

void* map(int memory, std::size_t size) {
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (address == MAP_FAILED) throw system_error("mmap of shared memory", errno);
  // A forked child has no part in the conversation.
  ::madvise(address, size, MADV_DONTFORK);
  return address;
}

// Calls copy(place in the ring, offset, size) for the one or two pieces that `size` bytes from
// `position` on are in a ring of `bytes`.
template <typename Copy>
void in_ring(std::byte* ring, std::size_t bytes, std::uint64_t position, std::size_t size,
             const Copy& copy) {
  const std::size_t offset = position & (bytes - 1);
  const std::size_t first = std::min(size, bytes - offset);
  copy(ring + offset, 0, first);
  if (first != size) copy(ring, first, size - first);
}

}  // namespace

SharedRing SharedRing::create(std::size_t bytes) {
  if (!is_possible(bytes)) throw Error(ErrorKind::kInvalidArgument, "no size for a shared ring");
  UniqueFd memory(::memfd_create("omniccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) throw system_error("memfd_create", errno);
  // All of it now: to run out of memory later would be a signal.
  const int error = ::posix_fallocate(memory.get(), 0, static_cast<off_t>(kHeaderBytes + bytes));
  if (error != 0) throw system_error("posix_fallocate of shared memory", error);
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) throw system_error("F_ADD_SEALS", errno);
  void* const address = map(memory.get(), kHeaderBytes + bytes);
  return {std::move(memory), new (address) Shared{}, bytes};
}

SharedRing SharedRing::open(UniqueFd memory) {
  struct stat status {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  const bool sized = ::fstat(memory.get(), &status) == 0;
  const std::size_t bytes = static_cast<std::size_t>(status.st_size) - kHeaderBytes;
  // A size that may change would be a signal when it does.
  if (seals < 0 || (seals & kSeals) != kSeals || !sized || !is_possible(bytes)) {
    throw Error(ErrorKind::kPeerFailure, "sent shared memory of a wrong kind");
  }
  void* const address = map(memory.get(), kHeaderBytes + bytes);
  return {std::move(memory), address, bytes};
}

SharedRing::SharedRing(UniqueFd memory, void* address, std::size_t bytes)
    : memory_(std::move(memory)),
      owner_(::getpid()),
      bytes_(bytes),
      shared_(static_cast<Shared*>(address)),
      data_(static_cast<std::byte*>(address) + kHeaderBytes) {}

SharedRing::SharedRing(SharedRing&& other) noexcept
    : memory_(std::move(other.memory_)),
      owner_(other.owner_),
      bytes_(other.bytes_),
      shared_(std::exchange(other.shared_, nullptr)),
      data_(other.data_),
      position_(other.position_) {}

SharedRing::~SharedRing() {
  // In a forked child something else may be there.
  if (shared_ != nullptr && ::getpid() == owner_) ::munmap(shared_, kHeaderBytes + bytes_);
}

std::size_t SharedRing::room() const {
  const std::uint64_t used = position_ - shared_->read.load();
  if (used > bytes_) {
    throw Error(ErrorKind::kPeerFailure, "read more from shared memory than there was");
  }
  return bytes_ - static_cast<std::size_t>(used);
}

std::size_t SharedRing::put(Span<const iovec> pieces) {
  std::size_t room = this->room();
  const std::uint64_t before = position_;
  for (std::size_t i = 0; i < pieces.size() && room != 0; ++i) {
    const std::size_t part = std::min(room, pieces[i].iov_len);
    const auto* from = static_cast<const std::byte*>(pieces[i].iov_base);
    in_ring(data_, bytes_, position_, part, [&](std::byte* ring, std::size_t at, std::size_t size) {
      std::memcpy(ring, from + at, size);
    });
    position_ += part;
    room -= part;
  }
  if (position_ != before) shared_->written.store(position_);
  return static_cast<std::size_t>(position_ - before);
}

std::size_t SharedRing::take(Span<const iovec> pieces) {
  std::uint64_t there = shared_->written.load() - position_;
  if (there > bytes_) {
    throw Error(ErrorKind::kPeerFailure, "wrote more into shared memory than there was room for");
  }
  const std::uint64_t before = position_;
  for (std::size_t i = 0; i < pieces.size() && there != 0; ++i) {
    const std::size_t part = std::min(static_cast<std::size_t>(there), pieces[i].iov_len);
    auto* to = static_cast<std::byte*>(pieces[i].iov_base);
    in_ring(data_, bytes_, position_, part,
            [&](const std::byte* ring, std::size_t at, std::size_t size) {
              std::memcpy(to + at, ring, size);
            });
    position_ += part;
    there -= part;
  }
  if (position_ != before) shared_->read.store(position_);
  return static_cast<std::size_t>(position_ - before);
}

bool SharedRing::half_free() const { return shared_->written.load() - position_ <= bytes_ / 2; }

}  // namespace omniccl
