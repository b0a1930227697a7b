#include "process_set_guard.h"

#include <string>
#include <vector>

namespace omniccl::horovod_op {
namespace {

constexpr const char* kAdvice =
    "; the adapter was built for another Horovod, rebuild it with: python -m hvd_omniccl adapter";

std::optional<Error> compare(const char* what, int process_set_id, long long from_headers,
                             long long from_functions) {
  if (from_headers == from_functions) return std::nullopt;
  return Error(ErrorKind::kPrecondition, std::string("the ") + what + " of process set " +
                                             std::to_string(process_set_id) + " reads as " +
                                             std::to_string(from_headers) + " and Horovod says " +
                                             std::to_string(from_functions) + kAdvice);
}

}  // namespace

ProcessSetIdentity identity_from_functions(int process_set_id) {
  return {hvd::horovod_process_set_rank(process_set_id),
          hvd::horovod_process_set_size(process_set_id)};
}

std::optional<Error> check_headers(const hvd::ProcessSet& process_set, int process_set_id) {
  const ProcessSetIdentity identity = identity_from_functions(process_set_id);
  const hvd::Controller& controller = *process_set.controller;
  if (auto error = compare("rank", process_set_id, controller.GetRank(), identity.rank)) {
    return error;
  }
  if (auto error = compare("size", process_set_id, controller.GetSize(), identity.size)) {
    return error;
  }
  // The member list lies behind the members whose size depends on the macros. Its length is
  // compared first: with a wrong layout its elements must not be touched.
  const std::vector<int>& members = process_set.registered_global_ranks;
  if (auto error = compare("number of members", process_set_id,
                           static_cast<long long>(members.size()), identity.size)) {
    return error;
  }
  std::vector<int> expected(static_cast<std::size_t>(identity.size));
  hvd::horovod_process_set_ranks(process_set_id, expected.data());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (auto error = compare("list of members", process_set_id, members[i], expected[i])) {
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace omniccl::horovod_op
