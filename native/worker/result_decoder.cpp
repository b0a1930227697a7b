#include "worker/result_decoder.h"

#include "encoder/block_bitmap.h"

namespace omniccl {
namespace {

// A run of blocks within one segment, in place.
struct Piece {
  const std::byte* input;
  std::byte* output;
  std::size_t elements;
};

// Calls `visit(Piece)` for each run of set bits, cut at the segment borders. `word_at(i)` gives the
// bitmap's 64-bit words.
template <typename WordAt, typename Visit>
void for_each_piece(const Chunk& chunk, std::size_t element_size, WordAt&& word_at, Visit&& visit) {
  SegmentCursor cursor;
  const auto segment_at = [&](std::size_t i) -> const BlockSegment& {
    return chunk.segments[i].shape;
  };
  for_each_run_in_words(chunk.blocks, word_at, [&](std::size_t first, std::size_t count) {
    cursor.visit(segment_at, first, count,
                 [&](std::size_t index, std::uint32_t offset, std::uint32_t blocks) {
                   const ChunkSegment& segment = chunk.segments[index];
                   const std::size_t bytes =
                       std::size_t{offset} * segment.shape.block_elements * element_size;
                   visit(Piece{segment.input + bytes, segment.output + bytes,
                               segment.shape.elements_of(offset, blocks)});
                 });
  });
}

auto words_of(ByteSpan bitmap) {
  return [bitmap](std::size_t i) { return bitmap_word(bitmap, i); };
}

auto words_of_arriving(ByteSpan united, ByteSpan exclusive) {
  return [=](std::size_t i) { return bitmap_word(united, i) & ~bitmap_word(exclusive, i); };
}

void write_own_and_zero_blocks(const Chunk& chunk, ByteSpan united, ByteSpan exclusive,
                               const DecodeRules& rules) {
  const std::size_t element_size = size_of(rules.dtype);
  const ReduceKernel kernel = rules.kernels->reduce(rules.dtype);
  const Scaling own{rules.prescale, rules.postscale, rules.size > 1};
  for_each_piece(chunk, element_size, words_of(exclusive), [&](const Piece& piece) {
    kernel(piece.output, &piece.input, 1, piece.elements, own);
  });
  const auto absent = [united](std::size_t i) { return ~bitmap_word(united, i); };
  for_each_piece(chunk, element_size, absent, [&](const Piece& piece) {
    rules.kernels->fill_zero(piece.output, piece.elements * element_size);
  });
}

}  // namespace

void list_destinations(const Chunk& chunk, ByteSpan united, ByteSpan exclusive,
                       std::size_t element_size, std::vector<iovec>& destinations) {
  for_each_piece(chunk, element_size, words_of_arriving(united, exclusive),
                 [&](const Piece& piece) {
                   destinations.push_back({piece.output, piece.elements * element_size});
                 });
}

void finish_result(const Chunk& chunk, ByteSpan united, ByteSpan exclusive,
                   const DecodeRules& rules) {
  if (rules.postscale != 1.0) {
    const ReduceKernel kernel = rules.kernels->reduce(rules.dtype);
    const Scaling scaling{1.0, rules.postscale, false};
    for_each_piece(chunk, size_of(rules.dtype), words_of_arriving(united, exclusive),
                   [&](const Piece& piece) {
                     const std::byte* source = piece.output;
                     kernel(piece.output, &source, 1, piece.elements, scaling);
                   });
  }
  write_own_and_zero_blocks(chunk, united, exclusive, rules);
}

void write_result(const Chunk& chunk, ByteSpan united, ByteSpan sums, const DecodeRules& rules) {
  const std::size_t element_size = size_of(rules.dtype);
  const ReduceKernel kernel = rules.kernels->reduce(rules.dtype);
  // The sums count an absent block as +0.0 already, those of exclusive blocks too.
  const Scaling scaling{1.0, rules.postscale, false};
  const std::byte* source = sums.data();
  for_each_piece(chunk, element_size, words_of(united), [&](const Piece& piece) {
    kernel(piece.output, &source, 1, piece.elements, scaling);
    source += piece.elements * element_size;
  });
  write_own_and_zero_blocks(chunk, united, {}, rules);
}

}  // namespace omniccl
