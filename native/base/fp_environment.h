// Rounding mode and denormal handling, which the framework may have changed on this thread.
#pragma once

#include <cfenv>

namespace omniccl {

// Sets the IEEE default (round to nearest even, denormals kept, no traps) and restores what was
// there before when it goes out of scope.
class DefaultFpEnvironment {
 public:
  DefaultFpEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFpEnvironment() { std::fesetenv(&saved_); }
  DefaultFpEnvironment(const DefaultFpEnvironment&) = delete;
  DefaultFpEnvironment& operator=(const DefaultFpEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace omniccl
