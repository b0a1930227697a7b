// Which tensors of one allreduce response are ours. Decided from the response and the settings
// alone, which are the same on every rank, so that all ranks split alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "horovod_headers.h"
#include "settings.h"

namespace omniccl::horovod_op {

struct TaggedTensor {
  std::size_t index = 0;  // in the response's entries
  std::uint32_t block_elements = 0;
};

struct ResponseSplit {
  std::vector<TaggedTensor> tagged;   // in the response's order
  std::vector<std::size_t> untagged;  // likewise
  bool malformed = false;             // some of `untagged` begin like ours and are not
};

ResponseSplit split_by_tag(const std::vector<hvd::TensorTableEntry>& entries);

// Our dtype for Horovod's, where we have it.
std::optional<DataType> engine_dtype(hvd::DataType dtype);

// Why tagged tensors of this response are left to the stock operation, or nothing.
std::optional<std::string> reason_to_pass_on(const hvd::Response& response,
                                             const std::vector<hvd::TensorTableEntry>& entries,
                                             const Settings& settings);

// `response` for the entries at `indices` only.
hvd::Response sub_response(const hvd::Response& response, const std::vector<std::size_t>& indices);

}  // namespace omniccl::horovod_op
