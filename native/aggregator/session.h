// One job's shard: takes the ranks' contributions chunk by chunk, and sums a chunk in rank order as
// soon as every rank's is there. Pure state, fed by whoever owns the connections.
//
// All ranks send their chunks of a shard in the same order, so each rank's contributions form a
// queue, and the heads of the queues are the chunk to sum next. A contribution waits in a ring of
// its rank's (slot memory) whose size the sender's window respects. The sums go to a ring of their
// own until they are sent; while that is full, no further chunk is summed.
//
// Waiting for the last contribution and then summing all ranks in one pass over registers reads
// each byte once; adding each as it comes would write and read the partial sums N - 1 times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "aggregator/byte_ring.h"
#include "base/dtype.h"
#include "base/span.h"
#include "encoder/block_encoder.h"
#include "encoder/block_reducer.h"
#include "protocol/messages.h"
#include "protocol/slot_memory.h"

namespace omniccl {

// The sum of one chunk. Everything is valid until the next reduce(), `sums` until release() was
// called for each rank.
struct ChunkSum {
  std::uint64_t operation = 0;
  std::uint32_t chunk = 0;
  std::uint32_t blocks = 0;
  std::size_t element_size = 0;
  Span<const BlockSegment> segments;
  ByteSpan united;                                // blocks that any rank has
  std::vector<std::vector<std::byte>> exclusive;  // [rank]: blocks that only this rank has
  ByteSpan sums;                                  // the blocks of `united`, in order
  std::uint64_t ticket = 0;                       // for release()
};

class Session {
 public:
  Session(std::uint32_t size, const SlotMemory& memory, const KernelTable& kernels);

  // A contribution that arrives in pieces: reserve() checks it and says where its `payload_bytes`
  // go, commit() makes it count. Throws Error(kPeerFailure) when it does not follow on the rank's
  // last one or exceeds the rank's window. `message` is swapped out.
  MutableByteSpan reserve(std::uint32_t rank, ContributionMessage& message,
                          std::uint32_t payload_bytes);
  void commit(std::uint32_t rank);

  // A contribution whose blocks lie in this process. They must stay as they are until reduce() took
  // it; `message` and `runs` are swapped out.
  void contribute_local(std::uint32_t rank, ContributionMessage& message, std::vector<iovec>& runs);

  // Whether all ranks but `rank` have contributed to the next chunk, and `rank` has not.
  bool waits_only_for(std::uint32_t rank) const;
  // Whether the next chunk lacks the contribution of `rank`.
  bool waits_for(std::uint32_t rank) const { return !ready(queues_[rank]); }

  // Whether any contribution has not been summed yet, complete or not.
  bool has_contributions() const;

  // Sums the next chunk. Nothing when a contribution is missing or there is no room for the sums.
  // Throws Error(kInvalidArgument), naming both ranks, when two contributions do not match.
  const ChunkSum* reduce();
  // One rank does not need the sums of `ticket` any more; after the last their memory is free.
  void release(std::uint64_t ticket);

 private:
  struct Entry {
    ContributionMessage message;
    std::vector<iovec> runs;
    bool complete = false;
    bool in_ring = false;
  };
  struct Queue {
    std::deque<Entry> entries;
    std::unique_ptr<ByteRing> ring;  // made with the rank's first remote contribution
  };

  Entry& append(std::uint32_t rank, ContributionMessage& message);
  bool ready(const Queue& queue) const {
    return !queue.entries.empty() && queue.entries.front().complete;
  }
  void check_match() const;
  void unite();
  void pop_heads();

  SlotMemory memory_;
  std::vector<Queue> queues_;  // [rank]
  ByteRing results_;
  std::deque<std::uint32_t> readers_;  // ranks that need the results that are out, oldest first
  std::uint64_t first_ticket_ = 0;
  BlockReducer reducer_;

  // Storage of the sum in progress, used again.
  ChunkSum sum_;
  ContributionMessage current_;
  std::vector<std::byte> united_;
  std::vector<Contribution> contributions_;
  std::vector<Entry> spare_;
};

}  // namespace omniccl
