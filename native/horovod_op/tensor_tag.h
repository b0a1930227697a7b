// The mark of our tensors, carried in the tensor's name: the only thing that a joined rank knows of
// a tensor it did not submit. hvd_omniccl/tag.py writes it.
//
//   [scope/]omniccl.b<blocks>.<caller's name>
//
// <blocks> is the block size in elements, for a grouped operation the sizes of all its tensors in
// order with runs written as <size>x<count>: "32", "32x3-0-256". A size of 0 is a member of the
// group that is not ours. Horovod appends "_<i>of<n>" to the name of a group's i-th tensor.
#pragma once

#include <cstdint>
#include <string_view>

namespace omniccl::horovod_op {

inline constexpr std::uint32_t kMaxBlockElements = 65536;

struct TensorTag {
  enum class Kind {
    kNone,       // not ours
    kMalformed,  // begins like ours and is not
    kBlock,      // ours
  };
  Kind kind = Kind::kNone;
  std::uint32_t block_elements = 0;  // for kBlock: 1..kMaxBlockElements
};

TensorTag read_tag(std::string_view tensor_name);

}  // namespace omniccl::horovod_op
