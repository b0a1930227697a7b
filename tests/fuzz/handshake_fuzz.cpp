// Both ends of the handshake, fed with what a stranger may send. Nobody without the key gets
// through.
#include <vector>

#include "base/error.h"
#include "protocol/handshake.h"

namespace {

class AnySession : public omniccl::Admission {
 public:
  bool knows(const omniccl::Hello&) const override { return true; }
  void admit(const omniccl::Hello&) override { __builtin_trap(); }
};

template <typename Handshake>
void feed(Handshake& handshake, omniccl::ByteSpan bytes) {
  try {
    while (handshake.expected() != 0 && bytes.size() >= handshake.expected()) {
      const std::size_t size = handshake.expected();
      handshake.feed(bytes.slice(0, size));
      bytes = bytes.slice(size, bytes.size() - size);
    }
  } catch (const omniccl::Error&) {
    return;
  }
  if (handshake.expected() == 0) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace omniccl;
  static const SessionCredentials credentials = SessionCredentials::random();
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  AnySession admission;
  ShardHandshake shard(credentials.key, admission);
  feed(shard, bytes);
  WorkerHandshake worker(credentials.key, Hello());
  feed(worker, bytes);
  return 0;
}
