// The single point where our operation enters an unmodified Horovod: the vtable slots of its CPU
// allreduce classes. Symbol interposition does not work on its library (-Bsymbolic-functions).
#pragma once

#include <string>
#include <vector>

#include "horovod_headers.h"

namespace omniccl::horovod_op {

// An Execute member function as the Itanium C++ ABI calls it: `this` as the first argument.
using ExecuteFunction = hvd::Status (*)(hvd::AllreduceOp*, std::vector<hvd::TensorTableEntry>&,
                                        const hvd::Response&);

struct AttachResult {
  std::string class_name;  // "GlooAllreduce"
  bool attached = false;
  std::string reason;  // why not
};

// Hooks every allreduce class of the library at `library_path`, which must be loaded already.
// A second call changes nothing and reports the same. Throws Error(kPrecondition) when the library
// is not loaded.
std::vector<AttachResult> attach(const std::string& library_path);

}  // namespace omniccl::horovod_op
