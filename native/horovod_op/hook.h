// The one global object of the hook. Horovod has one library, one background thread and one set of
// vtables per process, so there is one of these too.
#pragma once

#include "settings.h"
#include "totals.h"

namespace omniccl::horovod_op {

class Hook {
 public:
  // Never destroyed: Horovod's background thread may outlive the static objects of this module.
  static Hook& instance();

  // Fixed before the first attach(); the background thread reads them without a lock.
  void configure(const Settings& settings) { settings_ = settings; }
  const Settings& settings() const { return settings_; }
  Totals& totals() { return totals_; }

 private:
  Hook();

  Settings settings_;
  Totals totals_;
};

}  // namespace omniccl::horovod_op
