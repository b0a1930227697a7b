// Dedicated shards: ranks and a daemon in one process, over loopback.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/probe.h"
#include "support/allreduce_check.h"
#include "support/daemon.h"
#include "support/failures.h"

namespace omniccl::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For threads to be scheduled on a loaded machine.
constexpr milliseconds kAllowance{10'000};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

void wait_until(const std::function<bool()>& condition, const Daemon& daemon) {
  const auto deadline = steady_clock::now() + kAllowance;
  while (!condition()) {
    ASSERT_LT(steady_clock::now(), deadline) << daemon.log();
    std::this_thread::yield();
  }
}

void wait_for_log(const Daemon& daemon, const std::string& text) {
  wait_until([&] { return contains(daemon.log(), text); }, daemon);
}

struct Shape {
  std::uint32_t size;
  std::size_t shards;
};

class Dedicated : public ::testing::TestWithParam<Shape> {};

TEST_P(Dedicated, SumsHaveTheBitsOfEmbeddedOnes) {
  const Daemon daemon;
  const auto [size, shards] = GetParam();
  Ranks ranks(size, {}, daemon.shards(shards));
  expect_connected(ranks);
  for (const double density : {0.0, 0.05, 1.0}) {
    const std::vector<std::size_t> tensors{0, 1, 255, 256, 257, 100'000};
    expect_reference<float>(ranks, {size, tensors, 256, density}, 1);
    expect_reference<double>(ranks, {size, tensors, 256, density, 0.7, 0.25}, 2);
    expect_reference<Float16>(ranks, {size, tensors, 32, density, 0.5, 0.3}, 3);
    expect_reference<std::int64_t>(ranks, {size, tensors, 256, density, 1.0, 0.5}, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Dedicated,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{2, 3}, Shape{3, 2},
                                           Shape{5, 4}));

TEST(DedicatedRank, HasNoListener) {
  const Daemon daemon;
  Ranks ranks(2, {}, daemon.shards(1));
  for (const Endpoint& endpoint : ranks.endpoints()) EXPECT_EQ(endpoint.addresses[0].family, 0);
}

TEST(DedicatedTraffic, IsTheWorkersBlocksAndTheirSums) {
  const Daemon daemon;
  constexpr std::uint32_t kSize = 3;
  constexpr std::size_t kElements = 1 << 20;
  Ranks ranks(kSize, {}, daemon.shards(2));
  expect_connected(ranks);
  // Every rank has one block of eight, all the same ones.
  std::vector<Stats> stats(kSize);
  const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
    std::vector<float> input(kElements);
    for (std::size_t i = 0; i < kElements; i += 8 * 256) input[i] = 1.0F;
    std::vector<float> output(kElements);
    const std::vector<TensorView> views{view(input, output, 256)};
    Reduction reduction;
    reduction.tensors = views;
    communicator.allreduce(reduction);
    stats[rank] = communicator.stats();
  });
  for (const std::string& error : errors) ASSERT_EQ(error, "");
  const double limit = kElements * sizeof(float) / 8.0;
  for (const Stats& one : stats) {
    EXPECT_LE(static_cast<double>(one.bytes_sent), 1.02 * limit + 16'384);
    EXPECT_LE(static_cast<double>(one.bytes_received), 1.02 * limit + 16'384);
    EXPECT_GE(static_cast<double>(one.bytes_sent), limit);
  }
}

TEST(DedicatedJobs, ShareADaemonAndLeaveAnEmbeddedOneAlone) {
  const Daemon daemon;
  Ranks first(2, {}, daemon.shards(2));
  Ranks second(3, {}, daemon.shards(1));
  Ranks embedded(2);
  std::vector<std::thread> jobs;
  for (Ranks* ranks : {&first, &second, &embedded}) {
    jobs.emplace_back([ranks] {
      expect_connected(*ranks);
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        expect_reference<float>(*ranks, {ranks->size(), {200'000, 33}, 256, 0.3}, seed);
      }
    });
  }
  for (std::thread& job : jobs) job.join();
}

TEST(DedicatedJobs, ThatFailLeaveOthersAlone) {
  const Daemon daemon;
  Ranks good(2, {}, daemon.shards(2));
  expect_connected(good);
  Ranks bad(2, impatient(), daemon.shards(2));
  expect_connected(bad);
  std::thread failing([&] {
    const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
      if (rank == 1) {
        bad.owner(1).reset();
      } else {
        reduce_ones(bad[0], 1'000'000);
      }
    });
    EXPECT_TRUE(contains(errors[0], "rank 1") && contains(errors[0], "closed the connection"))
        << errors[0];
  });
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    expect_reference<float>(good, {2, {300'000}, 256, 0.5}, seed);
  }
  failing.join();
}

TEST(DedicatedJobs, GiveTheirMemoryBack) {
  ServerOptions options;
  options.slot_memory_bytes = 1 << 20;
  const Daemon daemon(options);
  CommunicatorConfig config;
  config.slot_memory_bytes = 768 << 10;  // two at a time do not fit
  for (int job = 0; job < 5; ++job) {
    {
      Ranks ranks(2, config, daemon.shards(1));
      expect_connected(ranks);
      expect_reference<float>(ranks, {2, {10'000}, 256, 0.5}, 1);
      Ranks too_many(2, config, daemon.shards(1));
      for (const std::string& error : too_many.connect()) {
        EXPECT_TRUE(contains(error, "0.2 of 1.0 MiB") && contains(error, "--slot-memory 1572864"))
            << error;
      }
    }
    wait_until([&] { return count(daemon.log(), "now 0 jobs") == job + 1; }, daemon);
  }
}

TEST(DedicatedFailure, OfARankThatTakesNoPartNamesIt) {
  const Daemon daemon;
  Ranks ranks(3, impatient(), daemon.shards(2));
  expect_connected(ranks);
  const auto begin = steady_clock::now();
  const auto errors = on_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 1) reduce_ones(ranks[rank], 1'000'000);
  });
  EXPECT_LT(steady_clock::now() - begin, impatient().timeout + kAllowance);
  for (const std::uint32_t rank : {0U, 2U}) {
    EXPECT_TRUE(contains(errors[rank], "OMNICCL_TIMEOUT") &&
                contains(errors[rank], std::string("waits for rank 1 ") + place_shown()))
        << errors[rank];
  }
}

TEST(DedicatedFailure, OfDifferentTensorsReachesEveryRank) {
  const Daemon daemon;
  Ranks ranks(3, impatient(), daemon.shards(2));
  expect_connected(ranks);
  const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
    reduce_ones(communicator, rank == 1 ? 999 : 1000);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "different tensors") && contains(error, "999 elements")) << error;
  }
}

TEST(DedicatedFailure, OfTheDaemonReachesEveryRank) {
  Daemon daemon;
  Ranks ranks(2, impatient(), daemon.shards(2));
  expect_connected(ranks);
  daemon.stop();
  const auto errors = ranks.run(
      [&](std::uint32_t, Communicator& communicator) { reduce_ones(communicator, 100'000); });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "told to stop") || contains(error, "aggregator 127.0.0.1:"))
        << error;
  }
}

TEST(DedicatedConnect, NamesTheRanksThatAreMissing) {
  const Daemon daemon;
  Ranks ranks(3, impatient(), daemon.shards(1));
  const auto errors = on_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 2) ranks[rank].connect(ranks.endpoints());
  });
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_TRUE(contains(errors[rank], "2 of 3 ranks") && contains(errors[rank], "rank 2"))
        << errors[rank];
  }
}

TEST(DedicatedConnect, NamesTheAggregatorThatDoesNotAnswer) {
  HostPort nobody;
  {
    Daemon daemon;
    nobody = daemon.place();
  }
  Ranks ranks(2, impatient(), [&](CommunicatorConfig& config) { config.aggregators = {nobody}; });
  for (const std::string& error : ranks.connect()) {
    EXPECT_TRUE(contains(error, nobody.to_string())) << error;
  }
}

TEST(DedicatedConnect, RefusesAnotherSecret) {
  const Daemon daemon;
  Ranks ranks(2, impatient(), [&](CommunicatorConfig& config) {
    daemon.shards(1)(config);
    if (config.rank == 1) config.credentials.key[7] ^= 1;
  });
  const auto errors = ranks.connect();
  EXPECT_TRUE(contains(errors[1], "another secret")) << errors[1];
  EXPECT_TRUE(contains(errors[0], "1 of 2 ranks")) << errors[0];
}

TEST(DedicatedConnect, RefusesOtherTerms) {
  const Daemon daemon;
  Ranks ranks(2, impatient(), [&](CommunicatorConfig& config) {
    daemon.shards(1)(config);
    if (config.rank == 1) config.slot_memory_bytes = 1 << 20;
  });
  const auto errors = ranks.connect();
  EXPECT_TRUE(contains(errors[0] + errors[1], "OMNICCL_SLOT_MEMORY")) << errors[0] << errors[1];
  for (const std::string& error : errors) EXPECT_NE(error, "");
}

TEST(DedicatedConnect, RefusesASecondRankOfTheSameNumber) {
  const Daemon daemon;
  Ranks ranks(2, impatient(), [&](CommunicatorConfig& config) {
    daemon.shards(1)(config);
    config.rank = 0;
  });
  const auto errors = ranks.connect();
  EXPECT_TRUE(contains(errors[0] + errors[1], "a rank 0 of this job already"))
      << errors[0] << errors[1];
}

TEST(DedicatedProbe, TellsWhetherTheSecretIsRight) {
  const Daemon daemon;
  EXPECT_EQ(probe_aggregator(daemon.place(), daemon.key(), kAllowance), daemon.place().to_string());
  SecretKey other = daemon.key();
  other[0] ^= 1;
  EXPECT_THROW(probe_aggregator(daemon.place(), other, kAllowance), Error);
  wait_for_log(daemon, "refused a connection from 127.0.0.1:");
}

TEST(OneShot, EndsWhenItsWorkersHaveLeft) {
  ServerOptions options;
  options.one_shot = true;
  Daemon daemon(options);
  {
    Ranks ranks(2, {}, daemon.shards(2));
    expect_connected(ranks);
    expect_reference<float>(ranks, {2, {10'000}, 256, 0.5}, 1);
  }
  const auto begin = steady_clock::now();
  daemon.wait();
  EXPECT_LT(steady_clock::now() - begin, kAllowance);
}

// Strangers cost a connection for a while, and nothing else.
TEST(Strangers, AreClosedAndJobsGoOn) {
  const Daemon daemon;
  Ranks ranks(2, {}, daemon.shards(1));
  expect_connected(ranks);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(begin_connect(resolve(daemon.place(), false).front()));
  }
  expect_reference<float>(ranks, {2, {100'000}, 256, 0.5}, 1);
  wait_for_log(daemon, "too many are not authenticated");
  wait_for_log(daemon, "did not say who it is");
}

}  // namespace
}  // namespace omniccl::testing
