#include "aggregator/session.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "encoder/block_bitmap.h"
#include "protocol/limits.h"

namespace omniccl {
namespace {

std::string describe(const ContributionMessage& message) {
  std::uint64_t elements = 0;
  for (const BlockSegment& segment : message.segments) elements += segment.elements();
  return "operation " + std::to_string(message.operation) + ", chunk " +
         std::to_string(message.chunk) + ": " + std::to_string(elements) + " elements in " +
         std::to_string(message.blocks) + " blocks of up to " +
         std::to_string(message.segments.front().block_elements) + ", dtype " +
         std::to_string(static_cast<int>(message.dtype)) + ", prescale " +
         std::to_string(message.prescale);
}

bool match(const ContributionMessage& a, const ContributionMessage& b) {
  return a.operation == b.operation && a.chunk == b.chunk && a.dtype == b.dtype &&
         a.prescale == b.prescale && a.blocks == b.blocks && a.segments == b.segments;
}

}  // namespace

Session::Session(std::uint32_t size, const SlotMemory& memory, const KernelTable& kernels)
    : memory_(memory), queues_(size), results_(memory.ring_bytes), reducer_(kernels) {
  sum_.exclusive.resize(size);
}

Session::Entry& Session::append(std::uint32_t rank, ContributionMessage& message) {
  std::deque<Entry>& entries = queues_[rank].entries;
  if (entries.size() == kMaxChunksInFlight) {
    throw Error(ErrorKind::kPeerFailure, "sent more chunks than its window allows");
  }
  if (spare_.empty()) {
    entries.emplace_back();
  } else {
    entries.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  Entry& entry = entries.back();
  std::swap(entry.message, message);
  entry.complete = false;
  entry.in_ring = false;
  entry.runs.clear();
  return entry;
}

MutableByteSpan Session::reserve(std::uint32_t rank, ContributionMessage& message,
                                 std::uint32_t payload_bytes) {
  const std::uint64_t expected =
      elements_in(message.bitmap, message.segments) * size_of(message.dtype);
  if (payload_bytes != expected) {
    throw Error(ErrorKind::kPeerFailure,
                "sent a malformed frame: a payload that does not fit its bitmap");
  }
  Queue& queue = queues_[rank];
  if (queue.ring == nullptr) queue.ring = std::make_unique<ByteRing>(memory_.ring_bytes);
  Entry& entry = append(rank, message);
  if (payload_bytes == 0) return {};
  const MutableByteSpan room = queue.ring->take(payload_bytes);
  if (room.data() == nullptr) {
    throw Error(ErrorKind::kPeerFailure, "sent more than its window allows");
  }
  entry.in_ring = true;
  entry.runs.push_back({room.data(), room.size()});
  return room;
}

void Session::commit(std::uint32_t rank) { queues_[rank].entries.back().complete = true; }

void Session::contribute_local(std::uint32_t rank, ContributionMessage& message,
                               std::vector<iovec>& runs) {
  Entry& entry = append(rank, message);
  std::swap(entry.runs, runs);
  entry.complete = true;
}

bool Session::waits_only_for(std::uint32_t rank) const {
  for (std::uint32_t other = 0; other < queues_.size(); ++other) {
    if (ready(queues_[other]) == (other == rank)) return false;
  }
  return true;
}

std::vector<std::uint32_t> Session::missing() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < queues_.size(); ++rank) {
    if (!ready(queues_[rank])) ranks.push_back(rank);
  }
  return ranks;
}

void Session::check_match() const {
  const ContributionMessage& first = queues_[0].entries.front().message;
  for (std::uint32_t rank = 1; rank < queues_.size(); ++rank) {
    const ContributionMessage& other = queues_[rank].entries.front().message;
    if (match(first, other)) continue;
    throw Error(ErrorKind::kInvalidArgument, "the ranks reduce different tensors: rank 0 has " +
                                                 describe(first) + "; rank " +
                                                 std::to_string(rank) + " has " + describe(other));
  }
}

// The union of the bitmaps, and for each rank the blocks that no other rank has.
void Session::unite() {
  const std::size_t bytes = contributions_[0].bitmap.size();
  united_.assign(bytes, std::byte{0});
  std::vector<std::byte>& shared = sum_.exclusive[0];  // blocks of two ranks or more; for now
  shared.assign(bytes, std::byte{0});
  for (const Contribution& contribution : contributions_) {
    for (std::size_t i = 0; i < bytes; ++i) {
      shared[i] |= united_[i] & contribution.bitmap[i];
      united_[i] |= contribution.bitmap[i];
    }
  }
  for (std::size_t rank = contributions_.size(); rank-- != 0;) {
    std::vector<std::byte>& exclusive = sum_.exclusive[rank];
    exclusive.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      exclusive[i] = contributions_[rank].bitmap[i] & ~shared[i];
    }
  }
}

const ChunkSum* Session::reduce() {
  for (const Queue& queue : queues_) {
    if (!ready(queue)) return nullptr;
  }
  check_match();
  contributions_.clear();
  for (const Queue& queue : queues_) {
    const Entry& entry = queue.entries.front();
    contributions_.push_back({entry.message.bitmap, entry.runs});
  }
  const ContributionMessage& message = queues_[0].entries.front().message;
  unite();
  const std::size_t element_size = size_of(message.dtype);
  const std::uint64_t sum_bytes = elements_in(united_, message.segments) * element_size;
  const MutableByteSpan sums = results_.take(sum_bytes);
  if (sums.data() == nullptr) return nullptr;
  reducer_.reduce(message.dtype, contributions_, message.segments, united_, message.prescale, sums);

  sum_.operation = message.operation;
  sum_.chunk = message.chunk;
  sum_.blocks = message.blocks;
  sum_.element_size = element_size;
  sum_.united = united_;
  sum_.sums = {sums.data(), sums.size()};
  sum_.ticket = first_ticket_ + released_.size();
  released_.push_back(false);
  std::swap(current_, queues_[0].entries.front().message);
  sum_.segments = current_.segments;
  pop_heads();
  return &sum_;
}

void Session::pop_heads() {
  for (Queue& queue : queues_) {
    if (queue.entries.front().in_ring) queue.ring->release_oldest();
    spare_.push_back(std::move(queue.entries.front()));
    queue.entries.pop_front();
  }
}

void Session::release(std::uint64_t ticket) {
  released_[ticket - first_ticket_] = true;
  while (!released_.empty() && released_.front()) {
    released_.pop_front();
    ++first_ticket_;
    results_.release_oldest();
  }
}

}  // namespace omniccl
