#include "communicator_registry.h"

#include <algorithm>
#include <atomic>

#include "bootstrap.h"
#include "log_sink.h"

namespace omniccl::horovod_op {
namespace {

std::uint64_t next_session_id() {
  static std::atomic<std::uint64_t> id{0};
  return ++id;
}

}  // namespace

ProcessSetSession::ProcessSetSession(hvd::ProcessSet& process_set, int process_set_id, Hook& hook)
    : controller_(process_set.controller),
      totals_(hook.totals()),
      id_(next_session_id()),
      intercept_(hook.settings().intercept) {
  try {
    communicator_ = bootstrap(process_set, process_set_id, hook.settings(), intercept_);
  } catch (const Error& error) {
    failure_ = error;
    horovod_log_sink(hvd::horovod_rank())(
        LogLevel::kWarning,
        "process set " + std::to_string(process_set_id) + " cannot be used: " + error.what());
  }
  if (communicator_) totals_.update(id_, communicator_->stats());
}

ProcessSetSession::~ProcessSetSession() { totals_.retire(id_); }

bool ProcessSetSession::belongs_to(const std::shared_ptr<hvd::Controller>& controller) const {
  return !controller_.owner_before(controller) && !controller.owner_before(controller_);
}

void ProcessSetSession::allreduce(const Reduction& reduction) {
  // The counters must be up to date before the caller's tensors are handed back, with or without
  // success: a stats() call right after the operation includes it.
  struct Publish {
    ProcessSetSession& session;
    ~Publish() { session.totals_.update(session.id_, session.communicator_->stats()); }
  } publish{*this};
  communicator_->allreduce(reduction);
}

CommunicatorRegistry& CommunicatorRegistry::of_this_thread() {
  // thread_local for its destructor: the end of Horovod's background thread is the only event that
  // hvd.shutdown() waits for and that needs no further hook in Horovod.
  thread_local CommunicatorRegistry registry;
  return registry;
}

ProcessSetSession& CommunicatorRegistry::session(hvd::ProcessSet& process_set, int process_set_id,
                                                 Hook& hook) {
  for (const auto& session : sessions_) {
    if (session->belongs_to(process_set.controller)) return *session;
  }
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(),
                                 [](const auto& session) { return session->expired(); }),
                  sessions_.end());
  sessions_.push_back(std::make_unique<ProcessSetSession>(process_set, process_set_id, hook));
  return *sessions_.back();
}

}  // namespace omniccl::horovod_op
