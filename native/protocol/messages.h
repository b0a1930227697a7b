// The heads of the frames, one struct per kind, encode and decode side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/span.h"
#include "encoder/block_segment.h"

namespace omniccl {

// One rank's part of one chunk; the payload holds its non-zero blocks in order.
struct ContributionMessage {
  std::uint64_t operation = 0;  // counts the operations of a communicator from 0
  std::uint32_t chunk = 0;
  DataType dtype = DataType::kFloat32;
  double prescale = 1.0;
  std::uint32_t blocks = 0;
  std::vector<BlockSegment> segments;
  std::vector<std::byte> bitmap;
};

// The sum of one chunk; the payload holds the blocks of `united` that are not in `exclusive`.
struct ResultMessage {
  std::uint64_t operation = 0;
  std::uint32_t chunk = 0;
  std::uint32_t blocks = 0;
  std::vector<std::byte> united;     // non-zero at any rank
  std::vector<std::byte> exclusive;  // only the receiver has it, and takes its own; within `united`
};

// Why the sender gives up.
struct AbortMessage {
  ErrorKind kind = ErrorKind::kPeerFailure;
  std::string text;  // names the rank where it began
};

// An abort message that arrived: what the peer says goes for us too.
class PeerAborted : public Error {
 public:
  explicit PeerAborted(const AbortMessage& message) : Error(message.kind, message.text) {}
};

// Appends the head of a contribution. `segments` and `bitmap` are views so that the sender need not
// copy; they agree with `blocks`.
void encode_contribution(std::uint64_t operation, std::uint32_t chunk, DataType dtype,
                         double prescale, std::uint32_t blocks, Span<const BlockSegment> segments,
                         ByteSpan bitmap, std::vector<std::byte>& head);
void encode_result(std::uint64_t operation, std::uint32_t chunk, std::uint32_t blocks,
                   ByteSpan united, ByteSpan exclusive, std::vector<std::byte>& head);
void encode_abort(const AbortMessage& message, std::vector<std::byte>& head);

// Decode `head`, using the storage of `message` again. All throw Error(kPeerFailure) for a head
// that breaks a rule of docs/protocol.md. After decode_contribution, segments and bitmap agree with
// `blocks`, and `max_chunk_bytes` bounds the elements of the chunk.
void decode_contribution(ByteSpan head, std::uint64_t max_chunk_bytes,
                         ContributionMessage& message);
void decode_result(ByteSpan head, ResultMessage& message);
AbortMessage decode_abort(ByteSpan head);

}  // namespace omniccl
