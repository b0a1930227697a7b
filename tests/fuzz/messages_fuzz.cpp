// The decoders of the frame heads. What they accept must encode to the same bytes again.
#include <vector>

#include "base/error.h"
#include "protocol/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace omniccl;
  if (size == 0) return 0;
  const ByteSpan head(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  std::vector<std::byte> again;
  try {
    if (data[0] % 3 == 0) {
      ContributionMessage message;
      decode_contribution(head, 1 << 20, message);
      encode_contribution(message.operation, message.chunk, message.dtype, message.prescale,
                          message.blocks, message.segments, message.bitmap, again);
    } else if (data[0] % 3 == 1) {
      ResultMessage message;
      decode_result(head, message);
      encode_result(message.operation, message.chunk, message.blocks, message.united,
                    message.exclusive, again);
    } else {
      decode_abort(head);  // it replaces what is not printable: no round trip
      return 0;
    }
  } catch (const Error&) {
    return 0;  // malformed, and noticed
  }
  if (again != std::vector<std::byte>(head.begin(), head.end())) __builtin_trap();
  return 0;
}
