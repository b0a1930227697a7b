// Which tensors of one allreduce response the engine takes. Decided from the response and the
// settings alone, which are the same on every rank, so that all ranks split alike.
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

struct TakenTensor {
  std::size_t index = 0;  // in the response's entries
  std::uint32_t block_elements = 0;
};

struct ResponseSplit {
  std::vector<TakenTensor> taken;  // in the response's order
  std::vector<std::size_t> left;   // to the stock operation, likewise
  bool malformed = false;          // some of `left` begin like ours and are not
};

// Taken are the tensors with a tag, with Intercept::kAll all. Those without a tag are cut into the
// default block, since a joined rank does not know their rows.
ResponseSplit split(const std::vector<hvd::TensorTableEntry>& entries, Intercept intercept);

// Our dtype for Horovod's, where we have it.
std::optional<DataType> engine_dtype(hvd::DataType dtype);

// Why also the taken tensors of this response are left to the stock operation, or nothing.
std::optional<std::string> reason_to_pass_on(const hvd::Response& response,
                                             const std::vector<hvd::TensorTableEntry>& entries,
                                             const Settings& settings);

// `response` for the entries at `indices` only.
hvd::Response sub_response(const hvd::Response& response, const std::vector<std::size_t>& indices);

}  // namespace omniccl::horovod_op
