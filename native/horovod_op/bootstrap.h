// The start of a process set: its ranks agree on settings and connect.
//
// Runs on Horovod's background thread during the first allreduce response of the process set, in
// every mode. It makes a fixed number of controller broadcasts, whatever went wrong on a rank:
// errors travel as data, and after the last broadcast all ranks draw the same conclusion. Returning
// early would leave the other ranks' controllers waiting.
#pragma once

#include <memory>

#include "engine/communicator.h"
#include "horovod_headers.h"
#include "settings.h"

namespace omniccl::horovod_op {

// A connected communicator, or nothing with Intercept::kOff. `intercept` gets the mode by which to
// split responses, also when this throws. Throws Error, the same on every rank, when the ranks do
// not agree or cannot connect.
std::unique_ptr<Communicator> bootstrap(const hvd::ProcessSet& process_set, int process_set_id,
                                        const Settings& settings, Intercept& intercept);

}  // namespace omniccl::horovod_op
