// Operations over several ranks, each result compared with the plain sum, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/ranks.h"
#include "support/reference.h"

namespace omniccl::testing {

template <typename T>
struct Workload {
  std::uint32_t size;
  std::vector<std::size_t> tensors;  // elements of each
  std::uint32_t block = 256;
  double density = 0.3;
  double prescale = 1.0;
  double postscale = 1.0;
};

template <typename T>
TensorView view(const std::vector<T>& input, std::vector<T>& output, std::uint32_t block) {
  return {reinterpret_cast<const std::byte*>(input.data()),
          reinterpret_cast<std::byte*>(output.data()), input.size(), block};
}

// Runs `repeats` operations of `workload` over `ranks` and compares each result with the reference.
template <typename T>
void expect_reference(Ranks& ranks, const Workload<T>& workload, std::uint64_t seed,
                      int repeats = 2) {
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    // [tensor][rank]
    std::vector<std::vector<std::vector<T>>> inputs(workload.tensors.size());
    std::vector<std::vector<std::vector<T>>> outputs(workload.tensors.size());
    for (std::size_t t = 0; t < workload.tensors.size(); ++t) {
      for (std::uint32_t rank = 0; rank < workload.size; ++rank) {
        inputs[t].push_back(
            random_blocks<T>(workload.tensors[t], workload.block, workload.density, random));
        outputs[t].push_back(random_blocks<T>(workload.tensors[t], workload.block, 1.0, random));
      }
    }
    const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
      std::vector<TensorView> views;
      for (std::size_t t = 0; t < workload.tensors.size(); ++t) {
        views.push_back(view(inputs[t][rank], outputs[t][rank], workload.block));
      }
      Reduction reduction;
      reduction.dtype = dtype_of<T>();
      reduction.prescale = workload.prescale;
      reduction.postscale = workload.postscale;
      reduction.tensors = views;
      reduction.name = "test";
      communicator.allreduce(reduction);
    });
    for (const std::string& error : errors) ASSERT_EQ(error, "");
    for (std::size_t t = 0; t < workload.tensors.size(); ++t) {
      const std::vector<T> expected =
          reference_sum(inputs[t], workload.prescale, workload.postscale);
      for (std::uint32_t rank = 0; rank < workload.size; ++rank) {
        ASSERT_TRUE(same_bits(outputs[t][rank], expected))
            << "tensor " << t << " of " << workload.tensors[t] << " elements, rank " << rank;
      }
    }
  }
}

inline void expect_connected(Ranks& ranks) {
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
}

}  // namespace omniccl::testing
