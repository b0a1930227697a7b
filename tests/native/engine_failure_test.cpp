// A peer that goes, freezes, or is not ours: every other rank gets a clear error within its time.
#include <gtest/gtest.h>

#include <chrono>

#include "support/failures.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "transport/socket/stream_socket.h"

namespace omniccl::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For a thread to be scheduled on a loaded machine.
constexpr milliseconds kAllowance{5'000};

TEST(Failure, OfAPeerThatClosesNamesIt) {
  Ranks ranks(3, impatient());
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto begin = steady_clock::now();
  const auto errors = on_each_rank(3, [&](std::uint32_t rank) {
    if (rank == 2) {
      ranks.owner(2).reset();
    } else {
      reduce_ones(ranks[rank], 1'000'000);
    }
  });
  EXPECT_LT(steady_clock::now() - begin, kAllowance);
  EXPECT_TRUE(contains(errors[0], "rank 2") && contains(errors[0], "ones")) << errors[0];
  EXPECT_TRUE(contains(errors[1], "rank 2") && contains(errors[1], "ones")) << errors[1];
}

TEST(Failure, OfAPeerThatTakesNoPartIsFoundAfterTheTimeout) {
  std::vector<std::string> warnings;
  CommunicatorConfig config = impatient();
  Ranks ranks(3, config);
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto begin = steady_clock::now();
  const auto errors = on_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 1) reduce_ones(ranks[rank], 1'000'000);
  });
  const auto took = steady_clock::now() - begin;
  EXPECT_GE(took, config.timeout);
  EXPECT_LT(took, config.timeout + kAllowance);
  for (const std::uint32_t rank : {0U, 2U}) {
    EXPECT_TRUE(contains(errors[rank], "rank 1") && contains(errors[rank], "OMNICCL_TIMEOUT"))
        << errors[rank];
  }
}

// Whoever has its result owes nobody anything and may leave at once.
TEST(Close, AfterTheLastOperationHurtsNobody) {
  for (const std::uint32_t size : {2U, 3U, 4U}) {
    for (int job = 0; job < 10; ++job) {
      Ranks ranks(size, impatient());
      for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
      const auto errors = on_each_rank(size, [&](std::uint32_t rank) {
        reduce_ones(ranks[rank], 100'000);
        ranks.owner(rank).reset();
      });
      for (const std::string& error : errors) ASSERT_EQ(error, "") << size << " ranks";
    }
  }
}

// Whatever is thrown inside of an operation, the communicator is through with its tensors.
TEST(Failure, OfAnyKindIsFinal) {
  KernelTable failing = find_kernels("scalar");
  failing.scan = [](const std::byte*, const BlockSegment&, std::size_t, MutableByteSpan,
                    std::size_t) -> std::size_t { throw std::bad_alloc(); };
  Ranks ranks(2, impatient(), [&](CommunicatorConfig& config) {
    if (config.rank == 1) config.kernels = &failing;
  });
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto errors = ranks.run(
      [](std::uint32_t, Communicator& communicator) { reduce_ones(communicator, 1'000'000); });
  EXPECT_TRUE(contains(errors[0], "rank 1") && contains(errors[0], "bad_alloc")) << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_THROW(reduce_ones(ranks[1], 10), Error);
}

TEST(Failure, OfTheLogSinkHurtsNobody) {
  CommunicatorConfig config = impatient();
  config.log = [](LogLevel, const std::string&) { throw std::bad_alloc(); };
  Ranks ranks(2, config);
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
    if (rank == 1) reduce_ones(ranks[1], 1'000'000);
  });
  EXPECT_TRUE(contains(errors[1], "OMNICCL_TIMEOUT")) << errors[1];
  EXPECT_THROW(reduce_ones(ranks[1], 10), Error);
}

TEST(Failure, OfAStalledShardNamesTheRankThatStallsIt) {
  Ranks ranks(4, impatient());
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto errors = on_each_rank(4, [&](std::uint32_t rank) {
    if (rank != 3) reduce_ones(ranks[rank], 100);  // one chunk, on shard 0
  });
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const bool by_owner = contains(errors[rank], "waiting for rank 3");
    const bool by_waiter = contains(errors[rank], "waiting for rank 0");
    EXPECT_TRUE(by_owner || by_waiter) << errors[rank];
    EXPECT_FALSE(contains(errors[rank], "waiting for rank 1")) << errors[rank];
  }
}

TEST(Failure, IsFinal) {
  Ranks ranks(2, impatient());
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  ranks.owner(1).reset();
  std::string first;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
      if (rank == 0) reduce_ones(ranks[0], 1000);
    });
    ASSERT_NE(errors[0], "");
    if (first.empty()) first = errors[0];
    EXPECT_EQ(errors[0], first);
  }
}

TEST(Failure, OfDifferentTensorsReachesEveryRank) {
  Ranks ranks(3, impatient());
  for (const std::string& error : ranks.connect()) ASSERT_EQ(error, "");
  const auto errors = ranks.run([&](std::uint32_t rank, Communicator& communicator) {
    reduce_ones(communicator, rank == 1 ? 999 : 1000);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "different tensors") && contains(error, "999 elements") &&
                contains(error, "1000 elements") && contains(error, "rank 1"))
        << error;
  }
}

TEST(Connect, NamesTheRankThatIsMissing) {
  Ranks ranks(3, impatient());
  const auto begin = steady_clock::now();
  const auto errors = on_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 2) ranks[rank].connect(ranks.endpoints());
  });
  EXPECT_LT(steady_clock::now() - begin, impatient().connect_timeout + kAllowance);
  EXPECT_TRUE(contains(errors[0], "rank 2")) << errors[0];
  EXPECT_TRUE(contains(errors[1], "rank 2")) << errors[1];
}

// The address and port are what a person needs to look for a packet filter.
TEST(Connect, NamesTheAddressThatDoesNotAnswer) {
  Ranks ranks(2, impatient());
  const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
    if (rank == 0) ranks[0].connect(ranks.endpoints());
  });
  EXPECT_TRUE(contains(errors[0], ranks.endpoints()[1].addresses[0].to_string())) << errors[0];
}

// Several addresses, as hosts with many interfaces publish, and strangers in all places.
TEST(Connect, WaitsForAPeerThatIsLate) {
  CommunicatorConfig config;
  config.connect_timeout = milliseconds{10'000};
  Ranks ranks(2, config);
  for (Endpoint& endpoint : ranks.endpoints()) {
    for (std::size_t i = 1; i < 8; ++i) endpoint.addresses[i] = endpoint.addresses[0];
  }
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 80; ++i) {
    strangers.push_back(begin_connect(ranks.endpoints()[1].addresses[0]));
  }
  const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds{1'500});  // the lateness itself
    ranks[rank].connect(ranks.endpoints());
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
}

TEST(Connect, RefusesAnotherKey) {
  Ranks ranks(2, impatient(), [](CommunicatorConfig& config) {
    if (config.rank == 1) config.credentials.key[0] ^= 1;
  });
  const auto errors = ranks.connect();
  EXPECT_TRUE(contains(errors[0], "key") || contains(errors[1], "key")) << errors[0] << errors[1];
  EXPECT_NE(errors[0], "");
  EXPECT_NE(errors[1], "");
}

TEST(Connect, RefusesAnotherSession) {
  Ranks ranks(2, impatient(), [](CommunicatorConfig& config) {
    if (config.rank == 1) config.credentials.session_id[0] ^= 1;
  });
  for (const std::string& error : ranks.connect()) EXPECT_NE(error, "");
}

TEST(Connect, RefusesAnotherSize) {
  Ranks ranks(2, impatient(), [](CommunicatorConfig& config) {
    if (config.rank == 1) config.size = 3;
  });
  const auto errors = on_each_rank(2, [&](std::uint32_t rank) {
    std::vector<Endpoint> endpoints = ranks.endpoints();
    if (rank == 1) endpoints.push_back(endpoints[0]);
    ranks[rank].connect(endpoints);
  });
  for (const std::string& error : errors) EXPECT_NE(error, "");
}

}  // namespace
}  // namespace omniccl::testing
