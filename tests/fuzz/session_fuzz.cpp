// Sequences of contributions as authenticated but lying workers may send them: the session either
// sums them or throws, and never touches memory that it does not own.
#include <cstring>
#include <deque>
#include <vector>

#include "aggregator/session.h"
#include "base/error.h"

namespace {

// Takes bytes off the input, 0 once it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  std::uint8_t next() { return empty() ? std::uint8_t{0} : data_[at_++]; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

omniccl::ContributionMessage message_from(Input& input) {
  omniccl::ContributionMessage message;
  message.operation = input.next() % 2;
  message.chunk = input.next() % 2;
  message.dtype = omniccl::kDataTypes[input.next() % omniccl::kDataTypes.size()];
  const std::uint32_t segments = 1 + input.next() % 3;
  for (std::uint32_t i = 0; i < segments; ++i) {
    omniccl::BlockSegment segment;
    segment.blocks = 1 + input.next() % 9;
    segment.block_elements = 1 + input.next() % 70;
    segment.last_elements = 1 + input.next() % segment.block_elements;
    message.blocks += segment.blocks;
    message.segments.push_back(segment);
  }
  message.bitmap.assign(omniccl::bitmap_bytes(message.blocks), std::byte{0});
  for (std::uint32_t block = 0; block < message.blocks; ++block) {
    if (input.next() % 2 != 0) omniccl::set_bit(message.bitmap, block);
  }
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace omniccl;
  constexpr std::uint32_t kSize = 3;
  const SlotMemory memory = SlotMemory::embedded(kSize * 16 * 1024, kSize);
  Session session(kSize, memory, *available_kernels()[0]);
  std::deque<std::uint64_t> tickets;
  Input input(data, size);
  try {
    while (!input.empty()) {
      const std::uint8_t action = input.next();
      if (action % 4 == 3) {
        if (tickets.empty()) continue;
        for (std::uint32_t rank = 0; rank < kSize; ++rank) session.release(tickets.front());
        tickets.pop_front();
        continue;
      }
      ContributionMessage message = message_from(input);
      const std::uint64_t right =
          elements_in(message.bitmap, message.segments) * size_of(message.dtype);
      const auto claimed = static_cast<std::uint32_t>(right + (action % 64 == 1 ? 4 : 0));
      const MutableByteSpan room = session.reserve(action % kSize, message, claimed);
      for (std::byte& byte : room) byte = static_cast<std::byte>(input.next());
      session.commit(action % kSize);
      if (const ChunkSum* sum = session.reduce()) tickets.push_back(sum->ticket);
    }
  } catch (const Error&) {
    return 0;  // a lie, and noticed
  }
  return 0;
}
