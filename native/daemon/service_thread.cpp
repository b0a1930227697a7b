#include "daemon/service_thread.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/fp_environment.h"

namespace omniccl {
namespace {

constexpr std::uint64_t kWakeCookie = 0;

}  // namespace

ServiceThread::ServiceThread(const KernelTable& kernels, LogSink log,
                             std::function<void(const JobKey&)> over)
    : kernels_(kernels), log_(std::move(log)), over_(std::move(over)) {
  poller_.add(wake_.descriptor(), kWakeCookie, {});
  thread_ = std::thread([this] { run(); });
}

ServiceThread::~ServiceThread() {
  stop();
  thread_.join();
}

void ServiceThread::stop() {
  post([this] {
    stopping_ = true;
    for (const auto& [cookie, job] : jobs_) {
      job->end({ErrorKind::kPeerFailure, "the aggregator was told to stop"});
    }
  });
}

void ServiceThread::post(std::function<void()> request) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(std::move(request));
  }
  wake_.set();
}

void ServiceThread::add_job(const Hello& first, const SlotMemory& memory) {
  post([this, first, memory] {
    try {
      auto job = std::make_unique<Job>(first, memory, poller_, next_cookie_, kernels_, log_);
      jobs_by_key_.emplace(job->key(), job.get());
      jobs_.emplace(next_cookie_, std::move(job));
      next_cookie_ += first.terms.size;
    } catch (const std::bad_alloc&) {
      // Its ranks find their connections closed; the other jobs go on.
      const JobKey key = JobKey::of(first);
      log_(LogLevel::kWarning, key.to_string() + " cannot be served: this host has no memory left");
      over_(key);
    }
  });
}

void ServiceThread::add_worker(const Hello& hello, PeerSocket socket) {
  // std::function wants to be copied, a socket does not.
  auto shared = std::make_shared<PeerSocket>(std::move(socket));
  post([this, hello, shared] {
    const auto job = jobs_by_key_.find(JobKey::of(hello));
    if (job != jobs_by_key_.end()) job->second->add_worker(hello, std::move(*shared));
  });
}

void ServiceThread::run() {
  const DefaultFpEnvironment fp_environment;
  bool more = false;
  while (!stopping_ || !jobs_.empty()) {
    const Nanoseconds timeout = more ? Nanoseconds{0} : time_to_next_deadline(Clock::now());
    for (const Poller::Event& event : poller_.wait(timeout)) dispatch(event);
    more = turn_all();
    expire_all(Clock::now());
    remove_over();
  }
}

void ServiceThread::dispatch(const Poller::Event& event) {
  if (event.cookie == kWakeCookie) {
    take_requests();
    return;
  }
  std::prev(jobs_.upper_bound(event.cookie))->second->on_event(event.cookie);
}

void ServiceThread::take_requests() {
  wake_.reset();
  std::vector<std::function<void()>> requests;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(requests, requests_);
  }
  for (const std::function<void()>& request : requests) request();
}

bool ServiceThread::turn_all() {
  bool more = false;
  for (const auto& [cookie, job] : jobs_) more |= job->turn();
  return more;
}

void ServiceThread::expire_all(Clock::time_point now) {
  for (const auto& [cookie, job] : jobs_) job->expire(now);
}

void ServiceThread::remove_over() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    if (!it->second->over()) {
      ++it;
      continue;
    }
    const JobKey key = it->second->key();
    jobs_by_key_.erase(key);
    it = jobs_.erase(it);
    over_(key);
  }
}

Nanoseconds ServiceThread::time_to_next_deadline(Clock::time_point now) const {
  constexpr Nanoseconds kMost = std::chrono::minutes(1);
  Nanoseconds time = kMost;
  for (const auto& [cookie, job] : jobs_) {
    const Clock::time_point deadline = job->next_deadline();
    if (deadline < now + kMost) time = std::min<Nanoseconds>(time, deadline - now);
  }
  return std::max(time, Nanoseconds{0});
}

}  // namespace omniccl
