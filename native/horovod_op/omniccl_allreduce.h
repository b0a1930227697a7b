// START HERE for the Horovod side. What runs in place of Horovod's GlooAllreduce::Execute and
// MPIAllreduce::Execute, on Horovod's background thread.
#pragma once

#include <vector>

#include "attach.h"
#include "horovod_headers.h"

namespace omniccl::horovod_op {

// Reduces the tensors of `response` that are ours with the engine and leaves the rest to `stock`.
// Follows the order of the stock operations: wait for the data, scale, reduce, scale, with a
// timeline activity of our own. `entries[i]` belongs to `response.tensor_names()[i]`.
hvd::Status execute_allreduce(hvd::AllreduceOp& op, std::vector<hvd::TensorTableEntry>& entries,
                              const hvd::Response& response, ExecuteFunction stock);

}  // namespace omniccl::horovod_op
