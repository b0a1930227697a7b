// Bytes both ways between two processes, in order: what frames travel over. It is ready for reading
// and writing as its descriptor says.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <string>

#include "base/span.h"
#include "transport/poller.h"

namespace omniccl {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Takes what there is room for, from the front of `pieces`. Returns how many bytes that is.
  // Throws Error(kPeerFailure) when the peer is gone.
  virtual std::size_t write(Span<const iovec> pieces) = 0;
  // Fills `pieces`, whose room is not zero, from their front. Returns how many bytes there were.
  // It may take in the news that there is room again: whoever has something left to write tries
  // that before it waits.
  // Throws Error(kPeerFailure) when the peer broke the rules of the stream.
  virtual std::size_t read(Span<const iovec> pieces) = 0;
  // Why nothing more will come, once read() has found that out; empty before.
  virtual const std::string& closed_because() const = 0;

  // For the end: nothing will be read any more; nothing will be written any more.
  virtual void stop_reading() noexcept = 0;
  virtual void stop_writing() noexcept = 0;

  virtual int descriptor() const = 0;
  // What a poller has to look for at descriptor() to learn of readiness.
  virtual Poller::Interest interest(Poller::Interest wanted) const = 0;
  // Bytes that may be read before others get a turn: what stays unread must be announced again.
  virtual std::size_t read_budget() const = 0;
};

}  // namespace omniccl
