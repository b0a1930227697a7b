// Where the engine reports what is worth knowing. It never prints by itself.
#pragma once

#include <functional>
#include <string>

namespace omniccl {

enum class LogLevel { kDebug, kInfo, kWarning };

// Called on the thread that drives the communicator.
using LogSink = std::function<void(LogLevel, const std::string&)>;

}  // namespace omniccl
