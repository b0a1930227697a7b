// What tests of failures have in common.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/communicator.h"

namespace omniccl::testing {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Gives up soon.
inline CommunicatorConfig impatient() {
  CommunicatorConfig config;
  config.timeout = std::chrono::milliseconds{600};
  config.connect_timeout = std::chrono::milliseconds{1'000};
  return config;
}

inline void reduce_ones(Communicator& communicator, std::size_t elements) {
  const std::vector<float> input(elements, 1.0F);
  std::vector<float> output(elements);
  const std::vector<TensorView> views{{reinterpret_cast<const std::byte*>(input.data()),
                                       reinterpret_cast<std::byte*>(output.data()), elements, 256}};
  Reduction reduction;
  reduction.tensors = views;
  reduction.name = "ones";
  communicator.allreduce(reduction);
}

}  // namespace omniccl::testing
