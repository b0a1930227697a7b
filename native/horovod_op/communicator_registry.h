// The communicators of one Horovod background thread, which owns them: they are made, used and
// destroyed on it. hvd.shutdown() joins that thread, so nothing of ours is left when it returns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/communicator.h"
#include "hook.h"
#include "horovod_headers.h"

namespace omniccl::horovod_op {

// Our state for one process set: connected, off, or failed for good.
class ProcessSetSession {
 public:
  // Runs the bootstrap; a failure of it is kept.
  ProcessSetSession(hvd::ProcessSet& process_set, int process_set_id, Hook& hook);
  ~ProcessSetSession();
  ProcessSetSession(const ProcessSetSession&) = delete;
  ProcessSetSession& operator=(const ProcessSetSession&) = delete;

  // Whether this is the session of `controller`. Addresses and ids come back after a
  // re-initialisation, the control block of a shared pointer that is watched does not.
  bool belongs_to(const std::shared_ptr<hvd::Controller>& controller) const;
  bool expired() const { return controller_.expired(); }

  // Why the process set could not start, for ever; the same on every rank.
  const std::optional<Error>& failure() const { return failure_; }

  // The mode by which responses are split; the same on every rank.
  Intercept intercept() const { return intercept_; }

  // Communicator::allreduce. Only without a failure(), and not with Intercept::kOff.
  void allreduce(const Reduction& reduction);

 private:
  std::weak_ptr<hvd::Controller> controller_;
  Totals& totals_;
  std::uint64_t id_;
  Intercept intercept_;
  std::optional<Error> failure_;
  std::unique_ptr<Communicator> communicator_;
};

class CommunicatorRegistry {
 public:
  // The calling thread's own; destroyed when that thread ends.
  static CommunicatorRegistry& of_this_thread();

  // The session of `process_set`, started at the first call for it. Sessions whose process set is
  // gone are destroyed on the way.
  ProcessSetSession& session(hvd::ProcessSet& process_set, int process_set_id, Hook& hook);

 private:
  std::vector<std::unique_ptr<ProcessSetSession>> sessions_;
};

}  // namespace omniccl::horovod_op
