#include "base/error.h"

#include <system_error>

namespace omniccl {

Error system_error(const std::string& what, int error_number) {
  return {ErrorKind::kSystem, what + ": " + std::generic_category().message(error_number)};
}

}  // namespace omniccl
