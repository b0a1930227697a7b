// One shard of one job on a daemon: its ranks come, reduce, and leave or fail together. Owned and
// driven by one service thread; knows nothing of other jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/shard.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/job_key.h"
#include "encoder/kernels.h"
#include "protocol/handshake.h"
#include "protocol/slot_memory.h"
#include "transport/channel.h"
#include "transport/poller.h"
#include "transport/socket/handshake_channel.h"

namespace omniccl {

class Job {
 public:
  // `first` is the hello of the rank for which the job was made. The ranks' connections are
  // registered with `poller` under first_cookie + rank. All references must outlive it.
  Job(const Hello& first, const SlotMemory& memory, Poller& poller, std::uint64_t first_cookie,
      const KernelTable& kernels, const LogSink& sink);

  // Takes in the worker of a rank; when it is the last, tells all that they can begin.
  void add_worker(const Hello& hello, PeerSocket socket);
  // Something happened at the connection with this cookie.
  void on_event(std::uint64_t cookie);
  // Sums and sends what can be. Returns whether there is more to do at once.
  bool turn();
  // Ends what takes too long.
  void expire(Clock::time_point now);
  // When expire() wants to be called; the end of time if it does not.
  Clock::time_point next_deadline() const;
  // Ends the job: every rank is told `cause`.
  void end(const Error& cause);
  // Nothing is left to do: it can be destroyed.
  bool over() const { return state_ == State::kOver; }

  const JobKey& key() const { return key_; }
  std::uint64_t first_cookie() const { return first_cookie_; }

 private:
  enum class State {
    kGathering,  // ranks are missing
    kRunning,
    kEnding,  // the ranks are being told why
    kOver,
  };
  // One rank's connection.
  struct Lane {
    WorkerPort* port = nullptr;
    std::unique_ptr<Channel> channel;
  };

  void start();
  // Whether anything waits for a rank: only then time counts.
  bool busy() const { return shard_.has_contributions() || !shard_.all_sent(); }
  void check_closed();
  std::string awaited() const;
  std::string missing() const;
  template <typename Step>
  void guarded(Step&& step);
  void log(LogLevel level, const std::string& text) const;
  std::string summary() const;

  JobKey key_;
  SessionTerms terms_;
  Poller& poller_;
  std::uint64_t first_cookie_;
  const LogSink& log_;
  SlotMemory memory_;
  Shard shard_;
  std::vector<Lane> lanes_;  // [rank]; destroyed before the shard's ports
  std::uint32_t workers_ = 0;
  State state_ = State::kGathering;
  Milliseconds timeout_{0};          // the longest that a rank asked for
  Clock::time_point gathered_by_;    // deadline of kGathering
  Clock::time_point last_progress_;  // in kRunning, while busy()
  Clock::time_point ended_by_;       // deadline of kEnding
};

}  // namespace omniccl
