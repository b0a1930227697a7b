// The one exception type of the engine. It is caught at the boundary to the caller (Horovod op,
// bindings) and, for a stranger's connection, where that connection is closed.
#pragma once

#include <stdexcept>
#include <string>

namespace omniccl {

// The values are wire values (docs/protocol.md, "abort"); never renumber.
enum class ErrorKind {
  kPeerFailure,      // a peer died, went silent, or sent bytes that fail the checks; retry after
                     // re-init
  kPrecondition,     // a setting, secret or version is wrong; a person has to change something
  kInvalidArgument,  // the caller passed something impossible
  kSystem,           // the operating system refused a resource
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

// Error(kSystem) with `what` and the text of `error_number` (an errno value).
Error system_error(const std::string& what, int error_number);

}  // namespace omniccl
