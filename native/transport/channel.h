// A connection as an event loop drives it: flushed and read when the poller says so, its errors
// with the peer's name.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "transport/connection.h"
#include "transport/poller.h"

namespace omniccl {

class Channel {
 public:
  // Registers with `poller` under `cookie`. All references must outlive it.
  Channel(Poller& poller, std::uint64_t cookie, Connection& connection, FrameSink& sink);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Hands queued frames to the fabric, and takes in what has arrived. Both return whether any bytes
  // moved, and throw Error: PeerAborted with the peer's own words, all others with its name.
  bool flush();
  bool receive();
  // Whether the peer has closed its side; what it sent before was received.
  bool closed() const { return closed_; }
  // What to throw when it should not have.
  Error closed_error() const;

  // For the end: queues an abort message that says `cause`, behind nothing but a frame that was
  // begun, and reads no more. The connection stays open until the channel's owner closes it: with
  // unread data in it, closing would take the message back.
  void abort(const Error& cause);
  // Flushes what abort() queued. Returns whether there is anything left to send.
  bool drain() noexcept;

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

 private:
  void poll_for(Poller::Interest wanted);
  void unregister() noexcept;

  Poller& poller_;
  std::uint64_t cookie_;
  Connection& connection_;
  FrameSink& sink_;
  Poller::Interest polled_;
  bool registered_ = true;
  bool closed_ = false;
};

}  // namespace omniccl
