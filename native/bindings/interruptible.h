// A long call of the engine under Python's rules: the GIL is free, and Ctrl-C ends it.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "base/error.h"

namespace omniccl::bindings {

class Interruptible {
 public:
  // Runs Python's signal handlers; for the engine, which asks whether it was interrupted. When one
  // raises, throws an Error, which the peers can be told.
  void check() {
    const pybind11::gil_scoped_acquire acquired;
    if (::PyErr_CheckSignals() == 0) return;
    raised_ = std::make_exception_ptr(pybind11::error_already_set());
    throw Error(ErrorKind::kPeerFailure, "interrupted by a signal");
  }

  // Calls `call` without the GIL. What a signal handler raised meanwhile, such as
  // KeyboardInterrupt, takes the place of the Error that ended the call.
  template <typename Call>
  auto run(Call&& call) {
    try {
      const pybind11::gil_scoped_release released;
      return call();
    } catch (const Error&) {
      if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
      throw;
    }
  }

 private:
  std::exception_ptr raised_;
};

}  // namespace omniccl::bindings
