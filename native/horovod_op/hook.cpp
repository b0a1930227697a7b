#include "hook.h"

#include <pthread.h>

namespace omniccl::horovod_op {

Hook& Hook::instance() {
  static Hook* const hook = new Hook();
  return *hook;
}

Hook::Hook() {
  // A child inherits neither Horovod's background thread nor our communicators, which that thread
  // owns; all that is left to put right there is the counters.
  ::pthread_atfork([] { instance().totals_.before_fork(); },
                   [] { instance().totals_.after_fork_in_parent(); },
                   [] { instance().totals_.after_fork_in_child(); });
}

}  // namespace omniccl::horovod_op
