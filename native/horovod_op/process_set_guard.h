// The third guard: what the compiled-in headers read is what Horovod's own functions return. With a
// wrong set of HAVE_* macros the layout of its structures differs and reads give garbage.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "horovod_headers.h"

namespace omniccl::horovod_op {

// Rank and size as Horovod's functions return them: right whatever the headers say.
struct ProcessSetIdentity {
  int rank = 0;
  int size = 1;
};

ProcessSetIdentity identity_from_functions(int process_set_id);

// The difference between both readings, if there is one.
std::optional<Error> check_headers(const hvd::ProcessSet& process_set, int process_set_id);

}  // namespace omniccl::horovod_op
