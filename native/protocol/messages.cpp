#include "protocol/messages.h"

#include <algorithm>
#include <cmath>

#include "encoder/block_bitmap.h"
#include "protocol/limits.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

std::uint32_t read_block_count(ByteReader& reader) {
  const auto blocks = reader.read<std::uint32_t>();
  if (blocks == 0 || blocks > kMaxChunkBlocks) {
    throw malformed("a chunk of " + std::to_string(blocks) + " blocks");
  }
  return blocks;
}

void read_bitmap(ByteReader& reader, std::uint32_t blocks, std::vector<std::byte>& bitmap) {
  const ByteSpan bytes = reader.take(bitmap_bytes(blocks));
  if (!padding_is_clear(bytes, blocks)) throw malformed("a bitmap with bits past its end");
  bitmap.assign(bytes.begin(), bytes.end());
}

void read_segments(ByteReader& reader, std::uint32_t count, std::uint32_t blocks,
                   std::uint64_t max_elements, std::vector<BlockSegment>& segments) {
  std::uint64_t segment_blocks = 0;
  std::uint64_t elements = 0;
  segments.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    BlockSegment segment;
    segment.blocks = reader.read<std::uint32_t>();
    segment.block_elements = reader.read<std::uint32_t>();
    segment.last_elements = reader.read<std::uint32_t>();
    if (segment.blocks == 0 || segment.blocks > kMaxChunkBlocks || segment.last_elements == 0 ||
        segment.last_elements > segment.block_elements ||
        segment.block_elements > kMaxBlockElements) {
      throw malformed("an impossible segment");
    }
    segment_blocks += segment.blocks;
    elements += segment.elements();
    segments.push_back(segment);
  }
  if (segment_blocks != blocks) throw malformed("segments that do not add up to its blocks");
  if (elements > max_elements) {
    throw malformed("a chunk of " + std::to_string(elements) + " elements");
  }
}

}  // namespace

void encode_contribution(std::uint64_t operation, std::uint32_t chunk, DataType dtype,
                         double prescale, std::uint32_t blocks, Span<const BlockSegment> segments,
                         ByteSpan bitmap, std::vector<std::byte>& head) {
  ByteWriter writer(head);
  writer.write(operation);
  writer.write(chunk);
  writer.write(static_cast<std::uint8_t>(dtype));
  writer.write(std::uint8_t{0});
  writer.write(static_cast<std::uint16_t>(segments.size()));
  writer.write(prescale);
  writer.write(blocks);
  for (const BlockSegment& segment : segments) {
    writer.write(segment.blocks);
    writer.write(segment.block_elements);
    writer.write(segment.last_elements);
  }
  writer.append(bitmap);
}

void decode_contribution(ByteSpan head, std::uint64_t max_chunk_bytes,
                         ContributionMessage& message) {
  ByteReader reader(head);
  message.operation = reader.read<std::uint64_t>();
  message.chunk = reader.read<std::uint32_t>();
  const auto dtype = dtype_from_wire(reader.read<std::uint8_t>());
  if (!dtype) throw malformed("unknown dtype");
  message.dtype = *dtype;
  if (reader.read<std::uint8_t>() != 0) throw malformed("a reserved byte that is not 0");
  const auto segment_count = reader.read<std::uint16_t>();
  if (segment_count == 0 || segment_count > kMaxChunkSegments) {
    throw malformed(std::to_string(segment_count) + " segments");
  }
  message.prescale = reader.read<double>();
  if (!std::isfinite(message.prescale) || message.prescale <= 0) {
    throw malformed("a prescale factor that is not positive and finite");
  }
  message.blocks = read_block_count(reader);
  read_segments(reader, segment_count, message.blocks, max_chunk_bytes / size_of(*dtype),
                message.segments);
  read_bitmap(reader, message.blocks, message.bitmap);
  reader.expect_end();
}

void encode_result(std::uint64_t operation, std::uint32_t chunk, std::uint32_t blocks,
                   ByteSpan united, ByteSpan exclusive, std::vector<std::byte>& head) {
  ByteWriter writer(head);
  writer.write(operation);
  writer.write(chunk);
  writer.write(blocks);
  writer.append(united);
  writer.append(exclusive);
}

void decode_result(ByteSpan head, ResultMessage& message) {
  ByteReader reader(head);
  message.operation = reader.read<std::uint64_t>();
  message.chunk = reader.read<std::uint32_t>();
  message.blocks = read_block_count(reader);
  read_bitmap(reader, message.blocks, message.united);
  read_bitmap(reader, message.blocks, message.exclusive);
  reader.expect_end();
  for (std::size_t i = 0; i < message.united.size(); ++i) {
    if ((message.exclusive[i] & ~message.united[i]) != std::byte{0}) {
      throw malformed("an exclusive block that is not in the union");
    }
  }
}

void encode_abort(const AbortMessage& message, std::vector<std::byte>& head) {
  ByteWriter writer(head);
  writer.write(static_cast<std::uint8_t>(message.kind));
  const std::size_t size = std::min<std::size_t>(message.text.size(), kMaxAbortText);
  writer.append({reinterpret_cast<const std::byte*>(message.text.data()), size});
}

AbortMessage decode_abort(ByteSpan head) {
  ByteReader reader(head);
  const auto kind = reader.read<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(ErrorKind::kSystem)) throw malformed("unknown error kind");
  if (reader.remaining() > kMaxAbortText) throw malformed("an abort text that is too long");
  return {static_cast<ErrorKind>(kind), printable(reader.take(reader.remaining()))};
}

}  // namespace omniccl
