// Horovod's own headers, of exactly the installed version. Included by this folder only.
#pragma once

#include <horovod/common/ops/collective_operations.h>

namespace omniccl::horovod_op {
namespace hvd = ::horovod::common;
}  // namespace omniccl::horovod_op
