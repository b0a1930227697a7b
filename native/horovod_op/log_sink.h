// The engine's messages in Horovod's log, in its format and under HOROVOD_LOG_LEVEL.
#pragma once

#include "base/log.h"

namespace omniccl::horovod_op {

LogSink horovod_log_sink(int global_rank);

}  // namespace omniccl::horovod_op
