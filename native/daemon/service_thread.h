// A thread with an event loop that drives some of the daemon's jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/event_signal.h"
#include "base/log.h"
#include "daemon/job.h"
#include "encoder/kernels.h"
#include "protocol/handshake.h"
#include "protocol/slot_memory.h"
#include "transport/poller.h"

namespace omniccl {

class ServiceThread {
 public:
  // `over` is called on the thread with the key of each job that is over.
  ServiceThread(const KernelTable& kernels, LogSink log, std::function<void(const JobKey&)> over);
  // Ends all jobs, telling their ranks that the aggregator stops, and waits for the thread.
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  // From any thread, in this order for each job.
  void add_job(const Hello& first, const SlotMemory& memory);
  void add_worker(const Hello& hello, PeerSocket socket);
  // Begins what the destructor waits for, so that several threads can end at the same time.
  void stop();

 private:
  using Jobs = std::map<std::uint64_t, std::unique_ptr<Job>>;

  void post(std::function<void()> request);
  void run();
  void take_requests();
  void dispatch(const Poller::Event& event);
  bool turn_all();
  void expire_all(Clock::time_point now);
  void remove_over();
  Nanoseconds time_to_next_deadline(Clock::time_point now) const;

  const KernelTable& kernels_;
  LogSink log_;
  std::function<void(const JobKey&)> over_;
  Poller poller_;
  EventSignal wake_;
  std::mutex mutex_;  // of requests_
  std::vector<std::function<void()>> requests_;

  // Of the thread alone.
  Jobs jobs_;  // by first cookie
  std::map<JobKey, Job*> jobs_by_key_;
  std::uint64_t next_cookie_ = 1;  // 0 is the wake-up's
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace omniccl
