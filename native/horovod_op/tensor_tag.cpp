#include "tensor_tag.h"

#include <charconv>
#include <cstddef>
#include <optional>

#include "protocol/limits.h"

namespace omniccl::horovod_op {
namespace {

constexpr std::string_view kPrefix = "omniccl.b";

// The part of `name` after our prefix, which stands at the beginning or after a '/'.
std::optional<std::string_view> after_prefix(std::string_view name) {
  for (std::size_t at = name.find(kPrefix); at != std::string_view::npos;
       at = name.find(kPrefix, at + 1)) {
    if (at == 0 || name[at - 1] == '/') return name.substr(at + kPrefix.size());
  }
  return std::nullopt;
}

// Takes a decimal number off the front of `text`.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

struct GroupPosition {
  std::uint32_t index = 0;  // from 0
  std::uint32_t count = 1;
};

// The "_<i>of<n>" at the end of `name`.
std::optional<GroupPosition> group_position(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  name.remove_prefix(underscore + 1);
  const auto index = take_number(name);
  if (!index || *index == 0 || name.substr(0, 2) != "of") return std::nullopt;
  name.remove_prefix(2);
  const auto count = take_number(name);
  if (!count || !name.empty() || *index > *count) return std::nullopt;
  return GroupPosition{*index - 1, *count};
}

constexpr TensorTag kMalformed{TensorTag::Kind::kMalformed, 0};

struct BlockList {
  std::uint32_t entries = 0;           // sizes in the list, runs counted in full
  TensorTag at_position = kMalformed;  // what stands at the position that was asked for
};

// Takes "<size>" or "u<size>" off the front of `text`.
std::optional<TensorTag> take_size(std::string_view& text) {
  TensorTag tag{TensorTag::Kind::kMarked, 0};
  if (!text.empty() && text.front() == 'u') {
    tag.kind = TensorTag::Kind::kUnmarked;
    text.remove_prefix(1);
  }
  const auto size = take_number(text);
  if (!size || *size == 0 || *size > kMaxBlockElements) return std::nullopt;
  tag.block_elements = *size;
  return tag;
}

// Reads "[u]<size>[x<count>]-…" up to the first '.'; nullopt when it is not such a list.
std::optional<BlockList> read_blocks(std::string_view text, std::uint32_t position) {
  BlockList list;
  while (true) {
    const auto size = take_size(text);
    if (!size || text.empty()) return std::nullopt;
    std::uint32_t run = 1;
    if (text.front() == 'x') {
      text.remove_prefix(1);
      const auto count = take_number(text);
      if (!count || *count == 0 || text.empty()) return std::nullopt;
      run = *count;
    }
    if (run > UINT32_MAX - list.entries) return std::nullopt;
    if (position >= list.entries && position - list.entries < run) list.at_position = *size;
    list.entries += run;
    const char separator = text.front();
    text.remove_prefix(1);
    if (separator == '.') return list;
    if (separator != '-') return std::nullopt;
  }
}

}  // namespace

TensorTag read_tag(std::string_view tensor_name) {
  const auto tail = after_prefix(tensor_name);
  if (!tail) return {};
  auto blocks = read_blocks(*tail, 0);
  if (blocks && blocks->entries > 1) {
    const auto position = group_position(*tail);
    const bool fits = position && position->count == blocks->entries;
    blocks = fits ? read_blocks(*tail, position->index) : std::nullopt;
  }
  return blocks ? blocks->at_position : kMalformed;
}

}  // namespace omniccl::horovod_op
