// The inner loops as functions, and plain loops over memory beside them, for the benchmark.
#pragma once

#include <pybind11/pybind11.h>

namespace omniccl::bindings {

void define_kernel_functions(pybind11::module_ module);

}  // namespace omniccl::bindings
