#include "daemon/job_registry.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "protocol/limits.h"

namespace omniccl {
namespace {

// Bounds the records of jobs, which cost memory beyond what they reserve.
constexpr std::size_t kMaxJobs = 1024;

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / (1024.0 * 1024.0));
  return text;
}

void check_possible(const Hello& hello) {
  const SessionTerms& terms = hello.terms;
  if (terms.size == 0 || terms.size > kMaxSize || hello.worker >= terms.size || terms.shards == 0 ||
      terms.shards > kMaxSize || hello.shard >= terms.shards) {
    throw Error(ErrorKind::kPeerFailure, "it was told an impossible rank, shard or size");
  }
}

}  // namespace

JobRegistry::JobRegistry(std::uint64_t slot_memory_bytes, std::size_t threads)
    : total_bytes_(slot_memory_bytes), jobs_of_thread_(threads) {}

JobRegistry::Place JobRegistry::admit(const Hello& hello) {
  check_possible(hello);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(JobKey::of(hello));
  if (found == records_.end()) return make_room(hello);
  const Record& record = found->second;
  if (const auto text = difference(record.terms, hello.terms)) {
    throw Error(ErrorKind::kPrecondition,
                "the ranks of this job do not agree: another and this one have " + *text);
  }
  if (record.entered[hello.worker]) {
    throw Error(ErrorKind::kPrecondition,
                "it has a rank " + std::to_string(hello.worker) + " of this job already");
  }
  Place place = record.place;
  place.is_new = false;
  return place;
}

JobRegistry::Place JobRegistry::make_room(const Hello& hello) {
  const SlotMemory memory = SlotMemory::dedicated(hello.terms.slot_memory_bytes, hello.terms.size);
  const std::uint64_t needed = memory.total_bytes();
  if (needed > total_bytes_ - reserved_bytes_) {
    throw Error(ErrorKind::kPrecondition,
                "it has " + mebibytes(total_bytes_ - reserved_bytes_) + " of " +
                    mebibytes(total_bytes_) + " MiB of slot memory free and this job needs " +
                    mebibytes(needed) + " MiB: start it with --slot-memory " +
                    std::to_string(reserved_bytes_ + needed) +
                    " or more, or set OMNICCL_SLOT_MEMORY to less, or wait for other jobs to end");
  }
  if (records_.size() >= kMaxJobs) {
    throw Error(ErrorKind::kPrecondition,
                "it serves " + std::to_string(kMaxJobs) + " jobs already, and no more");
  }
  Record record;
  record.terms = hello.terms;
  record.place = {true, idlest_thread(), memory};
  record.entered.resize(hello.terms.size);
  const Place place = record.place;
  records_.emplace(JobKey::of(hello), std::move(record));
  reserved_bytes_ += needed;
  ++jobs_of_thread_[place.thread];
  return place;
}

std::size_t JobRegistry::idlest_thread() const {
  const auto least = std::min_element(jobs_of_thread_.begin(), jobs_of_thread_.end());
  return static_cast<std::size_t>(least - jobs_of_thread_.begin());
}

std::optional<std::size_t> JobRegistry::enter(const Hello& hello) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(JobKey::of(hello));
  if (found == records_.end() || found->second.entered[hello.worker]) return std::nullopt;
  found->second.entered[hello.worker] = true;
  return found->second.place.thread;
}

void JobRegistry::leave(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return;
  reserved_bytes_ -= found->second.place.memory.total_bytes();
  --jobs_of_thread_[found->second.place.thread];
  records_.erase(found);
}

std::size_t JobRegistry::jobs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return records_.size();
}

std::string JobRegistry::summary() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::to_string(records_.size()) + (records_.size() == 1 ? " job, " : " jobs, ") +
         mebibytes(reserved_bytes_) + " of " + mebibytes(total_bytes_) + " MiB reserved";
}

}  // namespace omniccl
