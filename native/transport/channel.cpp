#include "transport/channel.h"

#include "protocol/messages.h"

namespace omniccl {

Channel::Channel(Poller& poller, std::uint64_t cookie, Connection& connection, FrameSink& sink)
    : poller_(poller),
      cookie_(cookie),
      connection_(connection),
      sink_(sink),
      polled_(connection.interest({})) {
  poller_.add(connection_.descriptor(), cookie_, polled_);
}

Channel::~Channel() { unregister(); }

void Channel::unregister() noexcept {
  if (registered_) poller_.remove(connection_.descriptor());
  registered_ = false;
}

bool Channel::flush() {
  if (connection_.unsent_frames() == 0) return false;
  bool moved = false;
  try {
    moved = connection_.flush();
  } catch (const Error& error) {
    // The peer may have said why before it went: its last words are still to be read.
    while (receive()) {
    }
    throw Error(error.kind(), connection_.peer() + " " + error.what());
  }
  poll_for({true, connection_.unsent_frames() != 0});
  return moved;
}

void Channel::poll_for(Poller::Interest wanted) {
  const Poller::Interest interest = connection_.interest(wanted);
  if (!registered_ || (interest.read == polled_.read && interest.write == polled_.write)) return;
  poller_.modify(connection_.descriptor(), cookie_, interest);
  polled_ = interest;
}

bool Channel::receive() {
  try {
    const bool moved = connection_.receive(sink_);
    if (!closed_ && !connection_.closed_because().empty()) {
      closed_ = true;
      unregister();  // it would be reported for ever
    }
    return moved;
  } catch (const PeerAborted&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), connection_.peer() + " " + error.what());
  }
}

Error Channel::closed_error() const {
  return {ErrorKind::kPeerFailure, connection_.peer() + " " + connection_.closed_because()};
}

void Channel::abort(const Error& cause) {
  connection_.drop_unstarted();
  if (closed_) return;
  OutgoingFrame& frame = connection_.prepare();
  encode_abort({cause.kind(), cause.what()}, frame.begin());
  frame.finish(FrameKind::kAbort, {}, std::nullopt);
  connection_.submit();
  connection_.stop_receiving();
  poll_for({false, true});
}

bool Channel::drain() noexcept {
  try {
    if (!closed_) connection_.flush();
    if (!closed_ && connection_.unsent_frames() != 0) return true;
  } catch (const Error&) {
    closed_ = true;  // there is nobody left to tell
  }
  unregister();
  return false;
}

}  // namespace omniccl
