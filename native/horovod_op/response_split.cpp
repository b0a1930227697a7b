#include "response_split.h"

#include <algorithm>
#include <cmath>

#include "encoder/tensor_view.h"
#include "tensor_tag.h"

namespace omniccl::horovod_op {
namespace {

bool is_usable_factor(double factor) { return std::isfinite(factor) && factor > 0.0; }

const char* operation_name(hvd::ReduceOp op) {
  switch (op) {
    case hvd::ReduceOp::AVERAGE:
      return "Average";
    case hvd::ReduceOp::SUM:
      return "Sum";
    case hvd::ReduceOp::ADASUM:
      return "Adasum";
    case hvd::ReduceOp::MIN:
      return "Min";
    case hvd::ReduceOp::MAX:
      return "Max";
    case hvd::ReduceOp::PRODUCT:
      return "Product";
  }
  return "unknown";
}

}  // namespace

ResponseSplit split(const std::vector<hvd::TensorTableEntry>& entries, Intercept intercept) {
  ResponseSplit result;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TensorTag tag = read_tag(entries[i].tensor_name);
    if (tag.kind == TensorTag::Kind::kMarked || intercept == Intercept::kAll) {
      const bool is_known = tag.block_elements != 0;
      result.taken.push_back({i, is_known ? tag.block_elements : default_block_elements(0)});
    } else {
      result.left.push_back(i);
      result.malformed |= tag.kind == TensorTag::Kind::kMalformed;
    }
  }
  return result;
}

std::optional<DataType> engine_dtype(hvd::DataType dtype) {
  switch (dtype) {
    case hvd::DataType::HOROVOD_INT8:
      return DataType::kInt8;
    case hvd::DataType::HOROVOD_UINT8:
      return DataType::kUint8;
    case hvd::DataType::HOROVOD_INT16:
      return DataType::kInt16;
    case hvd::DataType::HOROVOD_UINT16:
      return DataType::kUint16;
    case hvd::DataType::HOROVOD_INT32:
      return DataType::kInt32;
    case hvd::DataType::HOROVOD_INT64:
      return DataType::kInt64;
    case hvd::DataType::HOROVOD_FLOAT16:
      return DataType::kFloat16;
    case hvd::DataType::HOROVOD_FLOAT32:
      return DataType::kFloat32;
    case hvd::DataType::HOROVOD_FLOAT64:
      return DataType::kFloat64;
    case hvd::DataType::HOROVOD_BOOL:
      return DataType::kBool;
    default:
      return std::nullopt;
  }
}

std::optional<std::string> reason_to_pass_on(const hvd::Response& response,
                                             const std::vector<hvd::TensorTableEntry>& entries,
                                             const Settings& settings) {
  if (settings.intercept == Intercept::kOff) return "OMNICCL_INTERCEPT=off";
  const hvd::ReduceOp op = response.reduce_op();
  if (op != hvd::ReduceOp::SUM && op != hvd::ReduceOp::AVERAGE) {
    return std::string("operation ") + operation_name(op);
  }
  const auto dtype = engine_dtype(response.tensor_type());
  if (!dtype) return "dtype " + hvd::DataType_Name(response.tensor_type());
  if (!is_usable_factor(response.prescale_factor()) ||
      !is_usable_factor(response.postscale_factor())) {
    return "scale factor not positive and finite";
  }
  if (is_integer(*dtype) && response.prescale_factor() != 1.0) return "prescaled integers";
  if (*dtype == DataType::kBool && response.postscale_factor() != 1.0) return "scaled bools";
  if (std::any_of(entries.begin(), entries.end(),
                  [](const auto& entry) { return entry.device != CPU_DEVICE_ID; })) {
    return "tensor not in CPU memory";
  }
  return std::nullopt;
}

hvd::Response sub_response(const hvd::Response& response, const std::vector<std::size_t>& indices) {
  hvd::Response part = response;
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const std::size_t index : indices) {
    names.push_back(response.tensor_names().at(index));
    sizes.push_back(response.tensor_sizes().at(index));  // an allreduce has one size a tensor
  }
  part.set_tensor_names(names);
  part.set_tensor_sizes(sizes);
  return part;
}

}  // namespace omniccl::horovod_op
