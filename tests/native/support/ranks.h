// Several ranks in one process: a thread each, connected over loopback or shared memory.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/communicator.h"

namespace omniccl::testing {

// Runs `body(rank)` on one thread per rank. Returns what each threw, "" where nothing was thrown.
inline std::vector<std::string> on_each_rank(std::uint32_t size,
                                             const std::function<void(std::uint32_t)>& body) {
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// What the suite runs over: each runs once for each (CMakeLists.txt).
inline Transport transport_under_test() {
  const char* const name = std::getenv("OMNICCL_TEST_TRANSPORT");
  return name == nullptr ? Transport::kAuto : transport_named(name);
}

// How a peer that is connected over it is named, behind its rank.
inline const char* place_shown() {
  return transport_under_test() == Transport::kTcp ? "(127.0.0.1:" : "(shared memory)";
}

// A communicator per rank, not yet connected.
class Ranks {
 public:
  // `change` may make a rank's configuration differ from `base`.
  explicit Ranks(std::uint32_t size, CommunicatorConfig base = {},
                 const std::function<void(CommunicatorConfig&)>& change = {}) {
    base.size = size;
    base.loopback_only = true;
    base.transport = transport_under_test();
    base.credentials = SessionCredentials::random();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      CommunicatorConfig config = base;
      config.rank = rank;
      if (change) change(config);
      communicators_.push_back(std::make_unique<Communicator>(config));
      endpoints_.push_back(communicators_.back()->endpoint());
    }
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(communicators_.size()); }
  Communicator& operator[](std::uint32_t rank) { return *communicators_[rank]; }
  std::unique_ptr<Communicator>& owner(std::uint32_t rank) { return communicators_[rank]; }
  // What connect() uses; a test may edit them.
  std::vector<Endpoint>& endpoints() { return endpoints_; }

  std::vector<std::string> connect() {
    return on_each_rank(size(), [&](std::uint32_t rank) { (*this)[rank].connect(endpoints_); });
  }
  std::vector<std::string> run(const std::function<void(std::uint32_t, Communicator&)>& body) {
    return on_each_rank(size(), [&](std::uint32_t rank) { body(rank, (*this)[rank]); });
  }

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Endpoint> endpoints_;
};

}  // namespace omniccl::testing
