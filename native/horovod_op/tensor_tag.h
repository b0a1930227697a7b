// The tag in a tensor's name: the only thing that a joined rank knows of a tensor it did not
// submit. hvd_omniccl/tag.py writes it.
//
//   [scope/]omniccl.b<blocks>.<caller's name>
//
// <blocks> is the block size in elements, with a 'u' before it for a tensor that is not marked,
// which only OMNICCL_INTERCEPT=all takes. For a grouped operation they are those of all its tensors
// in order, with runs written as <size>x<count>: "32", "u32", "32x3-u256-16". Horovod appends
// "_<i>of<n>" to the name of a group's i-th tensor.
#pragma once

#include <cstdint>
#include <string_view>

namespace omniccl::horovod_op {

struct TensorTag {
  enum class Kind {
    kNone,       // not ours
    kMalformed,  // begins like ours and is not
    kMarked,     // for the engine
    kUnmarked,   // for the engine with Intercept::kAll
  };
  Kind kind = Kind::kNone;
  std::uint32_t block_elements = 0;  // of a tag: 1..kMaxBlockElements
};

TensorTag read_tag(std::string_view tensor_name);

}  // namespace omniccl::horovod_op
