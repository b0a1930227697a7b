#include "aggregator/session.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "encoder/block_bitmap.h"
#include "protocol/limits.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

std::string describe(const BlockSegment& segment) {
  return std::to_string(segment.elements()) + " elements in blocks of " +
         std::to_string(segment.block_elements);
}

std::string exactly(double value) {
  std::ostringstream text;
  text << std::setprecision(17) << value;
  return text.str();
}

// What two contributions to the same chunk disagree on, as "<a's> and <b's>"; empty if on nothing.
std::string difference(const ContributionMessage& a, const ContributionMessage& b) {
  const auto both = [](const std::string& what, const auto& left, const auto& right) {
    std::ostringstream text;
    text << what << " " << left << " and " << right;
    return text.str();
  };
  if (a.operation != b.operation) return both("operation", a.operation, b.operation);
  if (a.chunk != b.chunk) return both("chunk", a.chunk, b.chunk);
  if (a.dtype != b.dtype) return both("dtype", name_of(a.dtype), name_of(b.dtype));
  if (a.prescale != b.prescale) {
    return both("prescale factor", exactly(a.prescale), exactly(b.prescale));
  }
  if (a.segments.size() != b.segments.size()) {
    return both("number of tensors in chunk " + std::to_string(a.chunk) + ":", a.segments.size(),
                b.segments.size());
  }
  for (std::size_t i = 0; i < a.segments.size(); ++i) {
    if (a.segments[i] == b.segments[i]) continue;
    return both("tensor " + std::to_string(i) + " of chunk " + std::to_string(a.chunk) + ":",
                describe(a.segments[i]), describe(b.segments[i]));
  }
  return "";
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
    throw malformed("a payload that does not fit its bitmap");
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

bool Session::has_contributions() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const Queue& queue) { return !queue.entries.empty(); });
}

void Session::check_match() const {
  const ContributionMessage& first = queues_[0].entries.front().message;
  for (std::uint32_t rank = 1; rank < queues_.size(); ++rank) {
    const ContributionMessage& other = queues_[rank].entries.front().message;
    const std::string text = difference(first, other);
    if (text.empty()) continue;
    throw Error(ErrorKind::kInvalidArgument,
                "the ranks reduce different tensors; rank 0 and rank " + std::to_string(rank) +
                    " have " + text);
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
  sum_.ticket = first_ticket_ + readers_.size();
  readers_.push_back(static_cast<std::uint32_t>(queues_.size()));
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
  --readers_[ticket - first_ticket_];
  while (!readers_.empty() && readers_.front() == 0) {
    readers_.pop_front();
    ++first_ticket_;
    results_.release_oldest();
  }
}

}  // namespace omniccl
