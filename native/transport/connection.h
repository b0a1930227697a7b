// The seam between the protocol and a fabric: a connection carries frames both ways, in order.
// It knows their boundaries and limits, never what they mean.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/frame.h"
#include "transport/poller.h"

namespace omniccl {

// Who takes the frames of a connection.
class FrameSink {
 public:
  // A frame's head has arrived and its checksum is right. Appends to `payload` where its
  // frame.payload_bytes bytes go; they stay valid until end_frame(). May throw Error.
  virtual void begin_frame(const FrameHead& frame, std::vector<iovec>& payload) = 0;
  // The payload is there and its checksum, if it has one, is right. May throw Error.
  virtual void end_frame() = 0;

 protected:
  ~FrameSink() = default;
};

struct TrafficCounts {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_copied_send = 0;     // payload bytes copied into a frame
  std::uint64_t bytes_copied_receive = 0;  // payload bytes copied out of the staging buffer
};

// The texts of the errors that flush() and receive() throw follow on the peer's name: "closed the
// connection", "sent a malformed frame: ...".
class Connection {
 public:
  virtual ~Connection() = default;

  // A frame to fill; submit() queues the one that was prepared last.
  virtual OutgoingFrame& prepare() = 0;
  virtual void submit() = 0;

  // Hands queued bytes to the fabric until it takes no more. Returns whether any moved.
  // Throws Error(kPeerFailure) when the peer is gone.
  virtual bool flush() = 0;
  // Takes what has arrived, a bounded amount at a time. Returns whether any bytes moved. After it
  // comes flush() before the next wait: what arrived may be that there is room again.
  // Throws Error(kPeerFailure) when the peer sent something malformed.
  virtual bool receive(FrameSink& sink) = 0;
  // Set by receive() once nothing more will come; whether something is missing is not for the
  // connection to know. Empty while it is open.
  virtual const std::string& closed_because() const = 0;

  // Frames that are not with the fabric completely.
  virtual std::size_t unsent_frames() const = 0;
  // For the end after a failure: drops the queued frames of which nothing was sent yet, so that an
  // abort can follow at once; and drops everything and sends no more.
  virtual void drop_unstarted() = 0;
  virtual void close_sending() noexcept = 0;
  // Likewise: receive() is not called any more.
  virtual void stop_receiving() noexcept = 0;
  // For a Poller: what to register, and what to look for there to learn of what is `wanted`.
  virtual int descriptor() const = 0;
  virtual Poller::Interest interest(Poller::Interest wanted) const = 0;
  virtual const std::string& peer() const = 0;  // "rank 2 (10.0.0.3:40001)", for messages
  virtual TrafficCounts traffic() const = 0;
};

}  // namespace omniccl
