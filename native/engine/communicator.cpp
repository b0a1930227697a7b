#include "engine/communicator.h"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include "aggregator/shard.h"
#include "base/error.h"
#include "base/fp_environment.h"
#include "base/huge_pages.h"
#include "encoder/block_encoder.h"
#include "encoder/chunk_plan.h"
#include "engine/mesh.h"
#include "engine/reduction_plan.h"
#include "protocol/limits.h"
#include "protocol/slot_memory.h"
#include "transport/channel.h"
#include "transport/open_connection.h"
#include "transport/poller.h"
#include "transport/socket/local_address.h"
#include "transport/socket/stream_socket.h"
#include "worker/result_decoder.h"
#include "worker/shard_link.h"
#include "worker/shard_map.h"

namespace omniccl {
namespace {

// Chunks that one link, or the shard, works off before sockets are looked at again: enough to fill
// a system call with small frames, little enough to keep both directions moving.
constexpr unsigned kChunksPerTurn = 16;
// How long a failing rank tries to tell its peers why.
constexpr Milliseconds kAbortTime{500};
// A dedicated shard keeps time too, and knows which rank is late: it speaks first.
constexpr Milliseconds kShardSpeaksFirst{1'000};
// How late a signal may be seen that came while nothing waited and so cut no wait short.
constexpr Milliseconds kSignalTick{200};

CommunicatorConfig checked(CommunicatorConfig config) {
  if (config.size == 0 || config.size > kMaxSize || config.rank >= config.size) {
    throw Error(ErrorKind::kInvalidArgument,
                "rank " + std::to_string(config.rank) + " of " + std::to_string(config.size) +
                    " is not possible; the size is 1 to " + std::to_string(kMaxSize));
  }
  if (config.aggregators.size() > kMaxSize) {
    throw Error(ErrorKind::kInvalidArgument,
                "there are at most " + std::to_string(kMaxSize) + " aggregators");
  }
  if (config.kernels == nullptr) config.kernels = &find_kernels("auto");
  return config;
}

Error as_error(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? Error(*ours) : Error(ErrorKind::kSystem, error.what());
}

void prefer_huge_outputs(const Reduction& reduction) {
  for (const TensorView& tensor : reduction.tensors) {
    if (tensor.output == tensor.input) continue;  // its pages are there
    prefer_huge_pages(tensor.output, tensor.elements * size_of(reduction.dtype));
  }
}

// `address` before all others; the last one gives way when there are too many.
void put_first(const SocketAddress& address, Endpoint& endpoint) {
  auto& addresses = endpoint.addresses;
  std::copy_backward(addresses.begin(), addresses.end() - 1, addresses.end());
  addresses.front() = address;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

class Communicator::Impl final : private LocalWorker {
 public:
  explicit Impl(CommunicatorConfig config);

  const Endpoint& endpoint() const { return endpoint_; }

  void connect(Span<const Endpoint> endpoints);
  void allreduce(const Reduction& reduction);
  Stats stats() const;

 private:
  // A connection and what this rank does at it. The poller's cookie is its index in lanes_.
  struct Lane {
    std::unique_ptr<Channel> channel;
    ShardLink* link;   // as a worker, or
    WorkerPort* port;  // as a shard
  };

  bool dedicated() const { return !config_.aggregators.empty(); }
  void choose_transport();
  void listen();
  void stop_listening();
  std::uint32_t shards() const;
  // How long no progress is borne.
  Milliseconds patience() const {
    return config_.timeout + (dedicated() ? kShardSpeaksFirst : Milliseconds{0});
  }
  Hello hello() const;
  std::vector<ConnectTarget> targets(Span<const Endpoint> endpoints) const;
  std::vector<SocketAddress> ways_to(const HostPort& aggregator) const;
  void check_transport(ConnectTarget& target) const;
  std::vector<const Listener*> listeners() const;
  void open_lanes(MeshSockets sockets, const std::vector<ConnectTarget>& targets);
  template <typename FramesTo>
  void add_lane(FramesTo& end, ShardLink* link, WorkerPort* port);
  void wait_for_all_ranks(Deadline deadline);

  void run(const Operation& operation);
  bool done() const;
  bool produce();
  bool sum_chunks();
  void contribute(Session& session) override;
  void take(const ChunkSum& sum) override;
  std::uint32_t rank() const override { return config_.rank; }
  bool flush();
  bool wait(bool idle);
  bool look(Nanoseconds timeout);
  void check_all_open() const;
  void check_closed() const;
  void check_progress(bool progress);
  std::string awaited() const;
  [[noreturn]] void fail(const Error& cause);
  void tell_peers(const Error& cause) noexcept;
  void log(LogLevel level, const std::string& text) const noexcept;

  CommunicatorConfig config_;
  LogSink log_;  // as configured, but it never throws
  SlotMemory memory_;
  std::optional<Shard> shard_;  // this rank's, where shards are embedded
  std::optional<Listener> listener_;
  std::optional<Listener> local_listener_;  // for the ranks of this host
  Endpoint endpoint_;
  Poller poller_;
  std::vector<std::unique_ptr<ShardLink>> links_;  // to all shards but this rank's own
  std::vector<Lane> lanes_;
  bool connected_ = false;
  std::optional<Error> failure_;

  Stats stats_;
  std::uint64_t next_operation_ = 0;

  // Of the operation in progress.
  const Operation* operation_ = nullptr;
  std::uint64_t next_own_chunk_ = 0;  // of this rank's shard, to be contributed by this rank
  std::uint64_t next_own_result_ = 0;
  std::uint64_t chunk_count_ = 0;
  Clock::time_point last_progress_;
  bool warned_ = false;
  std::string operation_name_;

  // Storage that is used again.
  Chunk own_chunk_;
  EncodedChunk own_encoded_;
  ContributionMessage own_message_;
};

Communicator::Impl::Impl(CommunicatorConfig config)
    : config_(checked(std::move(config))),
      log_([this](LogLevel level, const std::string& text) { log(level, text); }),
      memory_(dedicated() ? SlotMemory::dedicated(config_.slot_memory_bytes, config_.size)
                          : SlotMemory::embedded(config_.slot_memory_bytes, config_.size)) {
  choose_transport();
  if (dedicated()) return;
  shard_.emplace(config_.size, memory_, *config_.kernels, config_.payload_checksum);
  listen();
}

void Communicator::Impl::choose_transport() {
  if (config_.transport == Transport::kTcp || config_.size == 1) return;
  const std::string why_not = why_no_shared_memory();
  if (why_not.empty()) return;
  if (config_.transport == Transport::kShm) {
    throw Error(ErrorKind::kPrecondition,
                "OMNICCL_TRANSPORT is shm, but this host gives no memory to share: " + why_not);
  }
  log(LogLevel::kWarning, "this host gives no memory to share (" + why_not + "): TCP is used");
  config_.transport = Transport::kTcp;
}

void Communicator::Impl::listen() {
  const int backlog = static_cast<int>(config_.size) + 128;
  NetworkOptions network;
  network.loopback_only = config_.loopback_only;
  network.interface = config_.interface;
  network.first_port = config_.first_port;
  network.last_port = config_.last_port;
  listener_.emplace(network, backlog);
  endpoint_ = listener_->endpoint();
  if (config_.transport == Transport::kTcp) return;
  const SocketAddress local = random_local_address();
  local_listener_.emplace(local, backlog);
  put_first(local, endpoint_);
}

std::uint32_t Communicator::Impl::shards() const {
  return dedicated() ? static_cast<std::uint32_t>(config_.aggregators.size()) : config_.size;
}

Hello Communicator::Impl::hello() const {
  const auto milliseconds = [](Milliseconds time) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, kMost));
  };
  Hello hello;
  hello.worker = config_.rank;
  hello.terms.size = config_.size;
  hello.terms.shards = shards();
  hello.terms.payload_checksum = config_.payload_checksum;
  hello.terms.slot_memory_bytes = config_.slot_memory_bytes;
  hello.timeout_ms = milliseconds(config_.timeout);
  hello.connect_timeout_ms = milliseconds(config_.connect_timeout);
  hello.session_id = config_.credentials.session_id;
  hello.generation = config_.credentials.generation;
  return hello;
}

std::vector<ConnectTarget> Communicator::Impl::targets(Span<const Endpoint> endpoints) const {
  std::vector<ConnectTarget> targets;
  const auto add = [&](std::uint32_t shard, std::string name, std::vector<SocketAddress> places) {
    targets.push_back({std::move(name), std::move(places), hello()});
    targets.back().hello.shard = shard;
    check_transport(targets.back());
  };
  for (std::uint32_t shard = 0; shard < shards(); ++shard) {
    if (dedicated()) {
      const HostPort& place = config_.aggregators[shard];
      add(shard, "aggregator " + place.to_string(), ways_to(place));
    } else if (shard != config_.rank) {
      add(shard, "rank " + std::to_string(shard),
          candidate_addresses(endpoint_, endpoints[shard], has_route));
    }
  }
  return targets;
}

std::vector<SocketAddress> Communicator::Impl::ways_to(const HostPort& aggregator) const {
  std::vector<SocketAddress> ways;
  const std::vector<SocketAddress> addresses = resolve(aggregator, false);
  for (const SocketAddress& address : addresses) {
    for (const SocketAddress& way : local_ways_to(address)) ways.push_back(way);
  }
  ways.insert(ways.end(), addresses.begin(), addresses.end());
  return ways;
}

// Leaves the addresses that the chosen transport allows.
void Communicator::Impl::check_transport(ConnectTarget& target) const {
  if (config_.transport == Transport::kAuto) return;
  const bool shared_memory = config_.transport == Transport::kShm;
  auto& addresses = target.addresses;
  addresses.erase(std::remove_if(addresses.begin(), addresses.end(),
                                 [&](const SocketAddress& address) {
                                   return address.is_local() != shared_memory;
                                 }),
                  addresses.end());
  if (!addresses.empty() || !shared_memory) return;
  throw Error(ErrorKind::kPrecondition, "OMNICCL_TRANSPORT is shm, but " + target.name +
                                            " is on another host or offers no shared memory; set "
                                            "it to auto, or to shm on all ranks of one host");
}

std::vector<const Listener*> Communicator::Impl::listeners() const {
  std::vector<const Listener*> all;
  if (listener_) all.push_back(&*listener_);
  if (local_listener_) all.push_back(&*local_listener_);
  return all;
}

void Communicator::Impl::connect(Span<const Endpoint> endpoints) {
  if (failure_) throw Error(*failure_);
  if (connected_) throw Error(ErrorKind::kInvalidArgument, "a communicator connects once");
  if (!dedicated() && endpoints.size() != config_.size) {
    throw Error(ErrorKind::kInvalidArgument, "connect() needs one endpoint per rank");
  }
  try {
    const Deadline deadline = Clock::now() + config_.connect_timeout;
    const std::vector<ConnectTarget> peers = targets(endpoints);
    std::vector<SocketAddress> sources;
    if (!config_.interface.empty()) sources = interface_addresses(config_.interface);
    Mesh mesh(hello(), config_.credentials.key, listeners(), log_, config_.interrupted);
    open_lanes(mesh.connect(peers, std::move(sources), deadline), peers);
    if (dedicated()) wait_for_all_ranks(deadline + kShardSpeaksFirst);
  } catch (const std::exception& error) {
    stop_listening();
    failure_ = as_error(error);
    throw Error(*failure_);
  }
  stop_listening();  // nobody else may come
  connected_ = true;
}

void Communicator::Impl::stop_listening() {
  listener_.reset();
  local_listener_.reset();
}

void Communicator::Impl::open_lanes(MeshSockets sockets,
                                    const std::vector<ConnectTarget>& targets) {
  const auto open = [&](PeerSocket& peer, const std::string& name) {
    return open_connection(std::move(peer), name, config_.size, memory_.chunk_bytes,
                           config_.congestion_control);
  };
  for (std::size_t i = 0; i < targets.size(); ++i) {
    links_.push_back(std::make_unique<ShardLink>(
        targets[i].hello.shard, open(sockets.to_shard[i], targets[i].name), memory_));
    ShardLink& link = *links_.back();
    add_lane(link, &link, nullptr);
    log(LogLevel::kInfo, "connected to " + link.connection().peer());
  }
  for (std::uint32_t rank = 0; shard_ && rank < config_.size; ++rank) {
    if (rank == config_.rank) continue;
    WorkerPort& port =
        shard_->add_port(rank, open(sockets.from_worker[rank], "rank " + std::to_string(rank)));
    add_lane(port, nullptr, &port);
  }
}

template <typename FramesTo>
void Communicator::Impl::add_lane(FramesTo& end, ShardLink* link, WorkerPort* port) {
  lanes_.push_back(
      {std::make_unique<Channel>(poller_, lanes_.size(), end.connection(), end), link, port});
}

// A dedicated shard says when all ranks have come to it, or who has not.
void Communicator::Impl::wait_for_all_ranks(Deadline deadline) {
  const auto ready = [](const auto& link) { return link->ready(); };
  while (!std::all_of(links_.begin(), links_.end(), ready)) {
    const Nanoseconds left = deadline - Clock::now();
    if (left <= Nanoseconds{0}) {
      std::vector<std::string> silent;
      for (const auto& link : links_) {
        if (!link->ready()) silent.push_back(link->connection().peer());
      }
      throw Error(
          ErrorKind::kPeerFailure,
          "starting took longer than OMNICCL_CONNECT_TIMEOUT allows; no word from " + join(silent));
    }
    look(left);
    for (const Lane& lane : lanes_) {
      if (lane.channel->closed()) throw lane.channel->closed_error();
    }
  }
}

void Communicator::Impl::allreduce(const Reduction& reduction) {
  if (failure_) throw Error(*failure_);
  if (!connected_) throw Error(ErrorKind::kInvalidArgument, "connect() comes before allreduce()");
  check_reduction(reduction, memory_);

  const DefaultFpEnvironment fp_environment;
  const ChunkPlan plan(reduction.dtype, reduction.tensors,
                       chunk_limits(reduction, memory_, shards()));
  const Operation operation{
      next_operation_,
      plan,
      ShardMap(shards(), next_operation_),
      {reduction.dtype, reduction.prescale, reduction.postscale, config_.size, config_.kernels},
      config_.payload_checksum,
      stats_};
  ++next_operation_;
  operation_name_ = reduction.name.empty() ? "unnamed tensors" : reduction.name;
  ++stats_.operations;
  stats_.tensors += reduction.tensors.size();
  stats_.bytes_reduced += plan.byte_count();
  stats_.dense_bytes += 2 * plan.byte_count() * (config_.size - 1) / config_.size;
  if (config_.huge_pages) prefer_huge_outputs(reduction);
  run(operation);
}

void Communicator::Impl::run(const Operation& operation) {
  operation_ = &operation;
  for (const auto& link : links_) link->begin(operation);
  chunk_count_ = operation.plan.chunk_count();
  next_own_chunk_ = shard_ ? operation.shard_map.first_chunk(config_.rank) : chunk_count_;
  next_own_result_ = next_own_chunk_;
  last_progress_ = Clock::now();
  warned_ = false;
  try {
    check_all_open();
    while (!done()) {
      bool progress = produce();
      progress |= sum_chunks();
      progress |= flush();
      if (done()) break;
      progress |= wait(!progress);
      check_closed();
      check_progress(progress);
    }
  } catch (const PeerAborted& abort) {
    fail(abort);  // the peer's own words
  } catch (const std::exception& error) {
    const Error cause = as_error(error);
    fail(Error(cause.kind(), "rank " + std::to_string(config_.rank) + ", allreduce of " +
                                 operation_name_ + ": " + cause.what()));
  }
}

bool Communicator::Impl::done() const {
  return next_own_result_ >= chunk_count_ &&
         std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->done(); }) &&
         (!shard_ || shard_->all_sent());
}

bool Communicator::Impl::produce() {
  bool any = false;
  for (const auto& link : links_) any |= link->produce(kChunksPerTurn);
  return any;
}

bool Communicator::Impl::sum_chunks() {
  if (!shard_) return false;
  const Nanoseconds scanned_before = stats_.scan_time;
  bool any = false;
  {
    const ScopedTimer timer(stats_.decode_time);
    any = shard_->sum_chunks(kChunksPerTurn, this);
  }
  // contribute() scans inside of it, and has counted that already.
  stats_.decode_time -= stats_.scan_time - scanned_before;
  return any;
}

void Communicator::Impl::contribute(Session& session) {
  if (next_own_chunk_ >= chunk_count_) return;
  const ScopedTimer timer(stats_.scan_time);
  operation_->scan(next_own_chunk_, own_chunk_, own_encoded_);
  own_message_.operation = operation_->number;
  own_message_.chunk = own_encoded_.index;
  own_message_.dtype = operation_->rules.dtype;
  own_message_.prescale = operation_->rules.prescale;
  own_message_.blocks = own_encoded_.blocks;
  std::swap(own_message_.segments, own_encoded_.segments);
  std::swap(own_message_.bitmap, own_encoded_.bitmap);
  session.contribute_local(config_.rank, own_message_, own_encoded_.runs);
  next_own_chunk_ += operation_->shard_map.stride();
}

void Communicator::Impl::take(const ChunkSum& sum) {
  operation_->plan.get(sum.chunk, own_chunk_);
  write_result(own_chunk_, sum.united, sum.sums, operation_->rules);
  next_own_result_ += operation_->shard_map.stride();
}

bool Communicator::Impl::flush() {
  bool any = false;
  for (const Lane& lane : lanes_) any |= lane.channel->flush();
  return any;
}

// Reads what has arrived; when `idle`, waits for something to arrive or to be sent first.
bool Communicator::Impl::wait(bool idle) {
  if (!idle) return look(Nanoseconds{0});
  const Nanoseconds limit = warned_ ? patience() : config_.timeout / 3;
  const ScopedTimer timer(stats_.wait_time);
  return look(std::max<Nanoseconds>(last_progress_ + limit - Clock::now(), Nanoseconds{0}));
}

bool Communicator::Impl::look(Nanoseconds timeout) {
  if (config_.interrupted) timeout = std::min<Nanoseconds>(timeout, kSignalTick);
  const Span<const Poller::Event> events = poller_.wait(timeout);
  if (events.empty() && timeout != Nanoseconds{0} && config_.interrupted) config_.interrupted();
  bool any = false;
  for (const Poller::Event& event : events) {
    if (event.readable) any |= lanes_[event.cookie].channel->receive();
  }
  return any;
}

// Every rank takes part in every operation that has something to reduce.
void Communicator::Impl::check_all_open() const {
  for (const Lane& lane : lanes_) {
    if (lane.channel->closed() && chunk_count_ != 0) throw lane.channel->closed_error();
  }
}

// A peer may close as soon as it owes nothing for this operation; before that it is a failure.
void Communicator::Impl::check_closed() const {
  const bool sums_missing = next_own_result_ < chunk_count_;
  for (const Lane& lane : lanes_) {
    if (!lane.channel->closed()) continue;
    const bool owes = lane.link != nullptr ? !lane.link->done()
                                           : sums_missing && shard_->waits_for(lane.port->rank());
    if (owes) throw lane.channel->closed_error();
  }
}

void Communicator::Impl::check_progress(bool progress) {
  const Clock::time_point now = Clock::now();
  if (progress) {
    last_progress_ = now;
    warned_ = false;
    return;
  }
  const auto stalled = now - last_progress_;
  const auto seconds = [](Nanoseconds duration) {
    std::ostringstream text;
    text << std::setprecision(3) << std::chrono::duration<double>(duration).count() << " s";
    return text.str();
  };
  if (stalled >= patience()) {
    throw Error(ErrorKind::kPeerFailure,
                "no progress for " + seconds(patience()) + " (OMNICCL_TIMEOUT is " +
                    seconds(config_.timeout) + "); waiting for " + awaited() +
                    "; look whether its process is stopped or its host cut off");
  }
  if (!warned_ && stalled >= config_.timeout / 3) {
    warned_ = true;
    log(LogLevel::kWarning, "no progress for " + seconds(stalled) + " in the allreduce of " +
                                operation_name_ + "; waiting for " + awaited());
  }
}

// The peers that this rank waits for: those whose contribution its shard lacks or that take no
// results; else the shards that owe it results, which wait for somebody themselves.
std::string Communicator::Impl::awaited() const {
  std::vector<std::string> names;
  for (const Lane& lane : lanes_) {
    if (lane.port == nullptr) continue;
    if ((next_own_result_ < chunk_count_ && shard_->waits_for(lane.port->rank())) ||
        lane.port->connection().unsent_frames() != 0) {
      names.push_back(lane.port->connection().peer());
    }
  }
  if (names.empty()) {
    for (const auto& link : links_) {
      if (!link->done()) names.push_back(link->connection().peer());
    }
  }
  return join(names);
}

void Communicator::Impl::fail(const Error& cause) {
  failure_ = cause;
  tell_peers(cause);
  log(LogLevel::kWarning, cause.what());
  throw Error(cause);
}

// Sends each peer an abort message, for a bounded time.
void Communicator::Impl::tell_peers(const Error& cause) noexcept {
  try {
    std::size_t waiting = 0;
    for (const Lane& lane : lanes_) {
      lane.channel->abort(cause);
      waiting += lane.channel->drain() ? 1 : 0;
    }
    const Deadline deadline = Clock::now() + kAbortTime;
    while (waiting != 0 && Clock::now() < deadline) {
      for (const Poller::Event& event : poller_.wait(deadline - Clock::now())) {
        waiting -= lanes_[event.cookie].channel->drain() ? 0 : 1;
      }
    }
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("the peers were not told: ") + error.what());
  }
  // From here on nothing touches the tensors of the operation.
  for (const Lane& lane : lanes_) lane.channel->connection().close_sending();
}

void Communicator::Impl::log(LogLevel level, const std::string& text) const noexcept {
  if (!config_.log) return;
  try {
    config_.log(level, text);
  } catch (const std::exception&) {
    return;  // where it fails there is nothing to report it to
  }
}

Stats Communicator::Impl::stats() const {
  Stats total = stats_;
  for (const Lane& lane : lanes_) {
    const TrafficCounts traffic = lane.channel->connection().traffic();
    total.bytes_sent += traffic.bytes_sent;
    total.bytes_received += traffic.bytes_received;
    total.bytes_copied_send += traffic.bytes_copied_send;
    total.bytes_copied_receive += traffic.bytes_copied_receive;
  }
  return total;
}

Communicator::Communicator(CommunicatorConfig config) try
    : impl_(std::make_unique<Impl>(std::move(config))) {
} catch (const std::bad_alloc&) {
  throw Error(ErrorKind::kPrecondition, "OMNICCL_SLOT_MEMORY is more than this host can give");
}
Communicator::~Communicator() = default;
const Endpoint& Communicator::endpoint() const { return impl_->endpoint(); }
void Communicator::connect(Span<const Endpoint> endpoints) { impl_->connect(endpoints); }
void Communicator::allreduce(const Reduction& reduction) { impl_->allreduce(reduction); }
Stats Communicator::stats() const { return impl_->stats(); }

}  // namespace omniccl
