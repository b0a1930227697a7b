#include "log_sink.h"

#include <horovod/common/logging.h>

namespace omniccl::horovod_op {
namespace {

horovod::common::LogLevel horovod_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return horovod::common::LogLevel::DEBUG;
    case LogLevel::kInfo:
      return horovod::common::LogLevel::INFO;
    case LogLevel::kWarning:
      return horovod::common::LogLevel::WARNING;
  }
  return horovod::common::LogLevel::WARNING;
}

}  // namespace

LogSink horovod_log_sink(int global_rank) {
  return [global_rank](LogLevel level, const std::string& message) {
    const auto severity = horovod_level(level);
    // What Horovod's LOG macro does, which cannot be used here: it names LogLevel without a scope.
    if (severity >= horovod::common::MinLogLevelFromEnv()) {
      horovod::common::LogMessage(__FILE__, __LINE__, severity)
          << "[" << global_rank << "]: omniccl: " << message;
    }
  };
}

}  // namespace omniccl::horovod_op
