#include "omniccl_allreduce.h"

#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "communicator_registry.h"
#include "hook.h"
#include "response_split.h"

namespace omniccl::horovod_op {
namespace {

constexpr const char* kActivity = "OMNICCL_ALLREDUCE";

// Horovod's elastic wrapper retries only errors whose text has this word.
constexpr const char* kErrorPrefix = "HorovodAllreduce (omniccl): ";

// Reaches the protected members of Horovod's operations; never instantiated.
class OperationAccess : public hvd::AllreduceOp {
 public:
  static hvd::HorovodGlobalState& state(hvd::AllreduceOp& op) {
    return *(op.*(&OperationAccess::global_state_));
  }
  static void wait_for_data(hvd::AllreduceOp& op, std::vector<hvd::TensorTableEntry>& entries) {
    (op.*(&OperationAccess::WaitForData))(entries);
  }
};

hvd::Status to_status(const Error& error) {
  const std::string text = kErrorPrefix + std::string(error.what());
  switch (error.kind()) {
    case ErrorKind::kPrecondition:
    case ErrorKind::kInvalidArgument:
      return hvd::Status::PreconditionError(text);
    case ErrorKind::kPeerFailure:
    case ErrorKind::kSystem:
      break;
  }
  return hvd::Status::UnknownError(text);
}

// A timeline activity over `entries` for the life of the object.
class TimelineActivity {
 public:
  TimelineActivity(hvd::Timeline& timeline, const std::vector<hvd::TensorTableEntry>& entries)
      : timeline_(timeline), entries_(entries) {
    timeline_.ActivityStartAll(entries_, kActivity);
  }
  ~TimelineActivity() { timeline_.ActivityEndAll(entries_); }
  TimelineActivity(const TimelineActivity&) = delete;
  TimelineActivity& operator=(const TimelineActivity&) = delete;

 private:
  hvd::Timeline& timeline_;
  const std::vector<hvd::TensorTableEntry>& entries_;
};

TensorView view_of(const hvd::TensorTableEntry& entry, std::uint32_t block_elements) {
  TensorView view;
  view.input = static_cast<const std::byte*>(entry.tensor->data());
  // Horovod's stock operations write through the const pointer too: the output is ours to fill.
  view.output = static_cast<std::byte*>(const_cast<void*>(entry.output->data()));
  view.elements = static_cast<std::uint64_t>(entry.tensor->shape().num_elements());
  view.block_elements = block_elements;
  return view;
}

std::vector<hvd::TensorTableEntry> select(const std::vector<hvd::TensorTableEntry>& entries,
                                          const std::vector<std::size_t>& indices) {
  std::vector<hvd::TensorTableEntry> selected;
  selected.reserve(indices.size());
  for (const std::size_t index : indices) selected.push_back(entries[index]);
  return selected;
}

// Reduces `entries`, whose blocks are `taken[i].block_elements`.
hvd::Status reduce(ProcessSetSession& session, hvd::Timeline& timeline,
                   const std::vector<hvd::TensorTableEntry>& entries,
                   const std::vector<TakenTensor>& taken, const hvd::Response& response,
                   int process_set_size, std::uint32_t block_override) {
  std::vector<TensorView> views;
  views.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    views.push_back(
        view_of(entries[i], block_override != 0 ? block_override : taken[i].block_elements));
  }
  Reduction reduction;
  reduction.dtype = *engine_dtype(response.tensor_type());
  reduction.prescale = response.prescale_factor();
  reduction.postscale = response.postscale_factor();
  // As the stock operations do it, in the same arithmetic.
  if (response.reduce_op() == hvd::ReduceOp::AVERAGE) reduction.postscale /= process_set_size;
  reduction.tensors = views;
  reduction.name = entries.front().tensor_name;
  const TimelineActivity activity(timeline, entries);
  try {
    session.allreduce(reduction);
  } catch (const Error& error) {
    return to_status(error);
  } catch (const std::exception& error) {
    return to_status(Error(ErrorKind::kSystem, error.what()));
  }
  return hvd::Status::OK();
}

// Horovod's own operations count the elements of a response in an int, and end the process where
// they are more.
constexpr std::int64_t kMaxStockElements = std::numeric_limits<int>::max();

// Hands a whole response, in which tensors are marked, to the stock operation.
hvd::Status pass_on(hvd::AllreduceOp& op, std::vector<hvd::TensorTableEntry>& entries,
                    const hvd::Response& response, const std::string& reason,
                    ExecuteFunction stock) {
  const auto& sizes = response.tensor_sizes();  // the same on every rank: all refuse, or none
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) > kMaxStockElements) {
    return to_status(Error(ErrorKind::kInvalidArgument,
                           entries.front().tensor_name + " has more than " +
                               std::to_string(kMaxStockElements) +
                               " elements, which Horovod's own allreduce cannot count, and only "
                               "that can reduce it (" +
                               reason + "); reduce it in parts"));
  }
  return stock(&op, entries, response);
}

// The stock operation's status, an exception of it included.
hvd::Status run_stock(hvd::AllreduceOp& op, std::vector<hvd::TensorTableEntry>& entries,
                      const hvd::Response& response, ExecuteFunction stock) {
  try {
    return stock(&op, entries, response);
  } catch (const std::exception& error) {
    return hvd::Status::UnknownError(error.what());
  }
}

}  // namespace

hvd::Status execute_allreduce(hvd::AllreduceOp& op, std::vector<hvd::TensorTableEntry>& entries,
                              const hvd::Response& response, ExecuteFunction stock) {
  Hook& hook = Hook::instance();
  const Settings& settings = hook.settings();
  hvd::HorovodGlobalState& state = OperationAccess::state(op);
  const int process_set_id = entries.front().process_set_id;
  hvd::ProcessSet& process_set = state.process_set_table.Get(process_set_id);
  // Before anything that depends on a tag: every rank starts at the same response.
  ProcessSetSession& session =
      CommunicatorRegistry::of_this_thread().session(process_set, process_set_id, hook);

  const ResponseSplit parts = split(entries, session.intercept());
  if (!parts.left.empty()) {
    hook.totals().count_passed_on(parts.malformed ? "malformed tag" : "not marked");
  }
  if (parts.taken.empty()) return stock(&op, entries, response);
  // A failed start is an error even where the operation would be passed on: the ranks may disagree
  // on exactly that. It is the same failure on every rank.
  if (session.failure()) return to_status(*session.failure());
  if (const auto reason = reason_to_pass_on(response, entries, settings)) {
    hook.totals().count_passed_on(*reason);
    return pass_on(op, entries, response, *reason, stock);
  }

  OperationAccess::wait_for_data(op, entries);
  const int size = process_set.controller->GetSize();
  if (parts.left.empty()) {
    return reduce(session, state.timeline, entries, parts.taken, response, size,
                  settings.block_elements);
  }
  std::vector<std::size_t> taken_indices;
  for (const TakenTensor& tensor : parts.taken) taken_indices.push_back(tensor.index);
  const hvd::Status ours = reduce(session, state.timeline, select(entries, taken_indices),
                                  parts.taken, response, size, settings.block_elements);
  // Also after a failure of ours: it may have come on this rank only, and the others' stock
  // operation waits for this one. Horovod gives all entries of a response one status, so the
  // failure is every entry's.
  auto rest = select(entries, parts.left);
  const hvd::Status theirs = run_stock(op, rest, sub_response(response, parts.left), stock);
  return ours.ok() ? theirs : ours;
}

}  // namespace omniccl::horovod_op
