#include "daemon/job.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "transport/open_connection.h"

namespace omniccl {
namespace {

// Chunks summed before other jobs of the thread get their turn.
constexpr unsigned kChunksPerTurn = 16;
// How long the ranks of a job that ends may take to take in why, before their connections close.
constexpr Milliseconds kEndTime{1'000};
// Bounds for what a rank asks for.
constexpr Milliseconds kMaxGatherTime{600'000};
constexpr Milliseconds kMaxTimeout{86'400'000};

std::string seconds(Milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Job::Job(const Hello& first, const SlotMemory& memory, Poller& poller, std::uint64_t first_cookie,
         const KernelTable& kernels, const LogSink& sink)
    : key_(JobKey::of(first)),
      terms_(first.terms),
      poller_(poller),
      first_cookie_(first_cookie),
      log_(sink),
      memory_(memory),
      shard_(terms_.size, memory_, kernels, terms_.payload_checksum),
      lanes_(terms_.size),
      gathered_by_(Clock::now() +
                   std::min(Milliseconds(first.connect_timeout_ms), kMaxGatherTime)) {
  log(LogLevel::kInfo, "waits for " + std::to_string(terms_.size) + " ranks");
}

void Job::add_worker(const Hello& hello, PeerSocket socket) {
  guarded([&] {
    Lane& lane = lanes_[hello.worker];
    auto connection = open_connection(std::move(socket), "rank " + std::to_string(hello.worker),
                                      terms_.size, memory_.chunk_bytes);
    if (lane.port != nullptr || state_ != State::kGathering) {
      log(LogLevel::kWarning, "closed a second connection of " + connection->peer());
      return;
    }
    lane.port = &shard_.add_port(hello.worker, std::move(connection));
    lane.channel = std::make_unique<Channel>(poller_, first_cookie_ + hello.worker,
                                             lane.port->connection(), *lane.port);
    timeout_ = std::max(timeout_, std::min(Milliseconds(hello.timeout_ms), kMaxTimeout));
    if (++workers_ == terms_.size) start();
  });
}

void Job::start() {
  state_ = State::kRunning;
  last_progress_ = Clock::now();
  for (const Lane& lane : lanes_) {
    Connection& connection = lane.port->connection();
    OutgoingFrame& frame = connection.prepare();
    frame.begin();
    frame.finish(FrameKind::kReady, {}, std::nullopt);
    connection.submit();
    lane.channel->flush();
  }
  log(LogLevel::kInfo, "all " + std::to_string(terms_.size) + " ranks are there");
}

void Job::on_event(std::uint64_t cookie) {
  const Lane& lane = lanes_[cookie - first_cookie_];
  if (lane.channel == nullptr) return;
  if (state_ == State::kEnding) {
    lane.channel->drain();
    return;
  }
  guarded([&] {
    const bool idle = !busy();
    bool moved = lane.channel->receive();
    moved |= lane.channel->flush();
    // After a pause time begins to count anew.
    if (moved || idle) last_progress_ = Clock::now();
  });
}

bool Job::turn() {
  bool more = false;
  guarded([&] {
    if (state_ == State::kRunning) {
      more = shard_.sum_chunks(kChunksPerTurn, nullptr);
      bool moved = more;
      for (const Lane& lane : lanes_) moved |= lane.channel->flush();
      if (moved) last_progress_ = Clock::now();
    }
    check_closed();
  });
  return more && state_ == State::kRunning;
}

// Ranks may leave when they owe nothing; the job is over when all have left.
void Job::check_closed() {
  if (state_ != State::kRunning && state_ != State::kGathering) return;
  std::uint32_t closed = 0;
  for (std::uint32_t rank = 0; rank < lanes_.size(); ++rank) {
    const Lane& lane = lanes_[rank];
    if (lane.channel == nullptr || !lane.channel->closed()) continue;
    ++closed;
    const bool owes = shard_.has_contributions() && shard_.waits_for(rank);
    if (owes || state_ == State::kGathering) throw lane.channel->closed_error();
  }
  if (closed != lanes_.size()) return;
  log(LogLevel::kInfo, "is over: " + summary());
  state_ = State::kOver;
}

Clock::time_point Job::next_deadline() const {
  switch (state_) {
    case State::kGathering:
      return gathered_by_;
    case State::kRunning:
      return busy() ? last_progress_ + timeout_ : Clock::time_point::max();
    case State::kEnding:
      return ended_by_;
    case State::kOver:
      break;
  }
  return Clock::time_point::max();
}

void Job::expire(Clock::time_point now) {
  if (now < next_deadline()) return;
  switch (state_) {
    case State::kGathering:
      end({ErrorKind::kPeerFailure,
           "starting took longer than OMNICCL_CONNECT_TIMEOUT allows: " + std::to_string(workers_) +
               " of " + std::to_string(terms_.size) +
               " ranks have come to the aggregator; missing: " + missing()});
      break;
    case State::kRunning:
      end({ErrorKind::kPeerFailure,
           "no progress for " + seconds(timeout_) +
               " (OMNICCL_TIMEOUT); the aggregator waits for " + awaited() +
               "; look whether its process is stopped or its host cut off"});
      break;
    case State::kEnding:
      state_ = State::kOver;
      break;
    case State::kOver:
      break;
  }
}

void Job::end(const Error& cause) {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  log(LogLevel::kWarning, std::string("has failed: ") + cause.what() + "; " + summary());
  state_ = State::kEnding;
  ended_by_ = Clock::now() + kEndTime;
  for (const Lane& lane : lanes_) {
    if (lane.channel == nullptr) continue;
    lane.channel->abort(cause);
    lane.channel->drain();
  }
}

// Whatever goes wrong inside of a job is the end of that job and of nothing else.
template <typename Step>
void Job::guarded(Step&& step) {
  try {
    step();
  } catch (const Error& error) {
    end(error);
  } catch (const std::exception& error) {
    end({ErrorKind::kSystem, std::string("the aggregator failed: ") + error.what()});
  }
}

std::string Job::missing() const {
  constexpr std::size_t kShown = 8;
  std::string text;
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < lanes_.size(); ++rank) {
    if (lanes_[rank].channel != nullptr || ++count > kShown) continue;
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  if (count > kShown) text += " and " + std::to_string(count - kShown) + " more";
  return text;
}

std::string Job::awaited() const {
  std::string text;
  for (std::uint32_t rank = 0; rank < lanes_.size(); ++rank) {
    const Connection& connection = lanes_[rank].port->connection();
    const bool owes = shard_.has_contributions() && shard_.waits_for(rank);
    if (!owes && connection.unsent_frames() == 0) continue;
    text += (text.empty() ? "" : ", ") + connection.peer();
  }
  return text;
}

void Job::log(LogLevel level, const std::string& text) const {
  log_(level, key_.to_string() + " " + text);
}

std::string Job::summary() const {
  TrafficCounts total;
  for (const Lane& lane : lanes_) {
    if (lane.port == nullptr) continue;
    const TrafficCounts traffic = lane.port->connection().traffic();
    total.bytes_sent += traffic.bytes_sent;
    total.bytes_received += traffic.bytes_received;
  }
  return std::to_string(total.bytes_received) + " bytes came, " + std::to_string(total.bytes_sent) +
         " bytes went";
}

}  // namespace omniccl
