#include "engine/communicator.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include "aggregator/session.h"
#include "aggregator/worker_port.h"
#include "base/error.h"
#include "base/fp_environment.h"
#include "encoder/block_encoder.h"
#include "encoder/chunk_plan.h"
#include "engine/mesh.h"
#include "protocol/limits.h"
#include "protocol/slot_memory.h"
#include "transport/poller.h"
#include "transport/tcp/tcp_connection.h"
#include "transport/tcp/tcp_socket.h"
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

CommunicatorConfig checked(CommunicatorConfig config) {
  if (config.size == 0 || config.size > kMaxSize || config.rank >= config.size) {
    throw Error(ErrorKind::kInvalidArgument,
                "rank " + std::to_string(config.rank) + " of " + std::to_string(config.size) +
                    " is not possible; the size is 1 to " + std::to_string(kMaxSize));
  }
  if (config.kernels == nullptr) config.kernels = &find_kernels("auto");
  return config;
}

void check(const Reduction& reduction) {
  const auto valid = [](double factor) { return std::isfinite(factor) && factor > 0; };
  if (!valid(reduction.prescale) || !valid(reduction.postscale)) {
    throw Error(ErrorKind::kInvalidArgument, "scale factors are positive and finite");
  }
  const bool integer = reduction.dtype == DataType::kInt32 || reduction.dtype == DataType::kInt64;
  if (integer && reduction.prescale != 1.0) {
    throw Error(ErrorKind::kInvalidArgument, "integers take no prescale factor");
  }
}

// In bytes. Throws Error(kInvalidArgument) for a block size that no frame can carry.
std::uint64_t largest_block(const Reduction& reduction) {
  std::uint64_t elements = 0;
  for (const TensorView& tensor : reduction.tensors) {
    if (tensor.block_elements > kMaxBlockElements) {
      throw Error(ErrorKind::kInvalidArgument,
                  "a block has at most " + std::to_string(kMaxBlockElements) + " elements");
    }
    elements = std::max(elements, std::min<std::uint64_t>(tensor.block_elements, tensor.elements));
  }
  return elements * size_of(reduction.dtype);
}

// Every shard gets a share of a small operation, as long as that leaves chunks worth a frame.
ChunkLimits chunk_limits(const Reduction& reduction, const SlotMemory& memory,
                         std::uint32_t shards) {
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : reduction.tensors) {
    bytes += tensor.elements * size_of(reduction.dtype);
  }
  const std::uint64_t share = (bytes + shards - 1) / shards;
  const std::uint64_t least = std::min(kMinChunkBytes, memory.chunk_bytes);
  ChunkLimits limits;
  limits.max_bytes = std::clamp(share, least, memory.chunk_bytes);
  limits.max_blocks = kMaxChunkBlocks;
  limits.max_segments = kMaxChunkSegments;
  return limits;
}

Error as_error(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? Error(*ours) : Error(ErrorKind::kSystem, error.what());
}

Error closed_error(const Connection& connection) {
  return {ErrorKind::kPeerFailure, connection.peer() + " " + connection.closed_because()};
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

class Communicator::Impl final : private OutgoingFrame::Owner {
 public:
  explicit Impl(CommunicatorConfig config)
      : config_(checked(std::move(config))),
        memory_(SlotMemory::divide(config_.slot_memory_bytes, config_.size)),
        session_(config_.size, memory_, *config_.kernels),
        listener_(std::in_place, config_.loopback_only, static_cast<int>(config_.size) + 128),
        endpoint_(listener_->endpoint()) {}

  const Endpoint& endpoint() const { return endpoint_; }

  void connect(Span<const Endpoint> endpoints);
  void allreduce(const Reduction& reduction);
  Stats stats() const;

 private:
  // A connection as the event loop sees it. The poller's cookie is its index in channels_.
  struct Channel {
    std::uint32_t rank;
    Connection* connection;
    FrameSink* sink;
    ShardLink* link;  // null for a port's
    bool polled_for_write = false;
    bool closed = false;
  };

  std::uint64_t index_of(const Channel& channel) const {
    return static_cast<std::uint64_t>(&channel - channels_.data());
  }

  void run(const Operation& operation);
  bool done() const;
  bool produce();
  bool sum_chunks(const Operation& operation);
  void contribute(const Operation& operation);
  void deliver(const Operation& operation, const ChunkSum& sum);
  bool flush();
  bool wait(bool idle);
  void check_all_open() const;
  void check_closed() const;
  bool receive(Channel& channel);
  void check_progress(bool progress);
  std::string awaited() const;
  [[noreturn]] void fail(const Error& cause);
  void tell_peers(const Error& cause) noexcept;
  void send_aborts(Poller& writable, Deadline deadline);
  void log(LogLevel level, const std::string& text) const noexcept;
  void frame_sent(std::uint64_t ticket) override;

  CommunicatorConfig config_;
  SlotMemory memory_;
  Session session_;  // this rank's shard
  std::optional<TcpListener> listener_;
  Endpoint endpoint_;
  Poller poller_;
  std::vector<std::unique_ptr<ShardLink>> links_;   // to the shards of the other ranks
  std::vector<std::unique_ptr<WorkerPort>> ports_;  // from the workers of the other ranks
  std::vector<Channel> channels_;                   // all of them
  bool connected_ = false;
  std::optional<Error> failure_;

  Stats stats_;
  std::uint64_t next_operation_ = 0;

  // Of the operation in progress.
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

void Communicator::Impl::connect(Span<const Endpoint> endpoints) {
  if (connected_ || failure_) {
    throw Error(ErrorKind::kInvalidArgument, "a communicator connects once");
  }
  if (endpoints.size() != config_.size) {
    throw Error(ErrorKind::kInvalidArgument, "connect() needs one endpoint per rank");
  }
  try {
    Mesh mesh(config_.rank, config_.size, config_.credentials, *listener_, endpoints, config_.log);
    MeshSockets sockets = mesh.connect(Clock::now() + config_.connect_timeout);
    const auto open = [&](std::uint32_t rank, MeshSocket& mesh_socket) {
      set_data_options(mesh_socket.socket.get());
      return std::make_unique<TcpConnection>(
          std::move(mesh_socket.socket),
          "rank " + std::to_string(rank) + " (" + mesh_socket.address + ")", memory_.chunk_bytes,
          mesh_socket.bytes_sent, mesh_socket.bytes_received);
    };
    for (std::uint32_t rank = 0; rank < config_.size; ++rank) {
      if (rank == config_.rank) continue;
      links_.push_back(
          std::make_unique<ShardLink>(rank, open(rank, sockets.to_shard[rank]), memory_));
      ports_.push_back(std::make_unique<WorkerPort>(rank, open(rank, sockets.from_worker[rank]),
                                                    session_, memory_.chunk_bytes));
      ShardLink& link = *links_.back();
      WorkerPort& port = *ports_.back();
      channels_.push_back({rank, &link.connection(), &link, &link});
      channels_.push_back({rank, &port.connection(), &port, nullptr});
      log(LogLevel::kInfo, "connected to " + link.connection().peer());
    }
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      poller_.add(channels_[i].connection->descriptor(), i, {});
    }
  } catch (const std::exception& error) {
    listener_.reset();
    failure_ = as_error(error);
    throw Error(*failure_);
  }
  listener_.reset();  // nobody else may come
  connected_ = true;
}

void Communicator::Impl::allreduce(const Reduction& reduction) {
  if (failure_) throw Error(*failure_);
  if (!connected_) throw Error(ErrorKind::kInvalidArgument, "connect() comes before allreduce()");
  check(reduction);
  memory_.require(largest_block(reduction), config_.size);

  const DefaultFpEnvironment fp_environment;
  const ChunkPlan plan(reduction.dtype, reduction.tensors,
                       chunk_limits(reduction, memory_, config_.size));
  const Operation operation{
      next_operation_,
      plan,
      ShardMap(config_.size, next_operation_),
      {reduction.dtype, reduction.prescale, reduction.postscale, config_.size, config_.kernels},
      config_.payload_checksum,
      stats_};
  ++next_operation_;
  operation_name_ = reduction.name.empty() ? "unnamed tensors" : reduction.name;
  ++stats_.operations;
  stats_.tensors += reduction.tensors.size();
  stats_.bytes_reduced += plan.byte_count();
  stats_.dense_bytes += 2 * plan.byte_count() * (config_.size - 1) / config_.size;
  run(operation);
}

void Communicator::Impl::run(const Operation& operation) {
  for (const auto& link : links_) link->begin(operation);
  next_own_chunk_ = next_own_result_ = operation.shard_map.first_chunk(config_.rank);
  chunk_count_ = operation.plan.chunk_count();
  last_progress_ = Clock::now();
  warned_ = false;
  try {
    check_all_open();
    while (!done()) {
      bool progress = produce();
      progress |= sum_chunks(operation);
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
         std::all_of(ports_.begin(), ports_.end(),
                     [](const auto& port) { return port->connection().unsent_frames() == 0; });
}

bool Communicator::Impl::produce() {
  bool any = false;
  for (const auto& link : links_) any |= link->produce(kChunksPerTurn);
  return any;
}

// Sums the chunks of this rank's shard for which all contributions are there. This rank's own comes
// last, so that what the scan reads is in the cache for the sum.
bool Communicator::Impl::sum_chunks(const Operation& operation) {
  // A peer that takes no results gets no more: results without blocks cost no slot memory.
  const bool unread = std::any_of(ports_.begin(), ports_.end(), [](const auto& port) {
    return port->connection().unsent_frames() >= kMaxChunksInFlight;
  });
  if (unread) return false;
  unsigned summed = 0;
  for (; summed < kChunksPerTurn; ++summed) {
    if (next_own_chunk_ < chunk_count_ && session_.waits_only_for(config_.rank)) {
      contribute(operation);
    }
    const ScopedTimer timer(stats_.decode_time);
    const ChunkSum* sum = session_.reduce();
    if (sum == nullptr) break;
    deliver(operation, *sum);
  }
  return summed != 0;
}

void Communicator::Impl::contribute(const Operation& operation) {
  const ScopedTimer timer(stats_.scan_time);
  operation.scan(next_own_chunk_, own_chunk_, own_encoded_);
  own_message_.operation = operation.number;
  own_message_.chunk = own_encoded_.index;
  own_message_.dtype = operation.rules.dtype;
  own_message_.prescale = operation.rules.prescale;
  own_message_.blocks = own_encoded_.blocks;
  std::swap(own_message_.segments, own_encoded_.segments);
  std::swap(own_message_.bitmap, own_encoded_.bitmap);
  session_.contribute_local(config_.rank, own_message_, own_encoded_.runs);
  next_own_chunk_ += operation.shard_map.stride();
}

void Communicator::Impl::deliver(const Operation& operation, const ChunkSum& sum) {
  for (const auto& port : ports_) port->send_result(sum, config_.payload_checksum, *this);
  operation.plan.get(sum.chunk, own_chunk_);
  write_result(own_chunk_, sum.united, sum.sums, operation.rules);
  next_own_result_ += operation.shard_map.stride();
  session_.release(sum.ticket);
}

void Communicator::Impl::frame_sent(std::uint64_t ticket) { session_.release(ticket); }

bool Communicator::Impl::flush() {
  bool any = false;
  for (Channel& channel : channels_) {
    if (channel.connection->unsent_frames() == 0) continue;
    try {
      any |= channel.connection->flush();
    } catch (const Error& error) {
      // The peer may have said why before it went: its last words are still to be read.
      while (receive(channel)) {
      }
      throw Error(error.kind(), channel.connection->peer() + " " + error.what());
    }
    const bool want_write = channel.connection->unsent_frames() != 0;
    if (want_write != channel.polled_for_write && !channel.closed) {
      poller_.modify(channel.connection->descriptor(), index_of(channel), {true, want_write});
      channel.polled_for_write = want_write;
    }
  }
  return any;
}

// Reads what has arrived; when `idle`, waits for something to arrive or to be sent first.
bool Communicator::Impl::wait(bool idle) {
  Nanoseconds timeout{0};
  if (idle) {
    const Nanoseconds limit = warned_ ? config_.timeout : config_.timeout / 3;
    timeout = std::max<Nanoseconds>(last_progress_ + limit - Clock::now(), Nanoseconds{0});
  }
  const auto events = [&] {
    if (!idle) return poller_.wait(timeout);
    const ScopedTimer timer(stats_.wait_time);
    return poller_.wait(timeout);
  }();
  bool any = false;
  for (const Poller::Event& event : events) {
    if (event.readable) any |= receive(channels_[event.cookie]);
  }
  return any;
}

bool Communicator::Impl::receive(Channel& channel) {
  try {
    const bool any = channel.connection->receive(*channel.sink);
    if (!channel.closed && !channel.connection->closed_because().empty()) {
      channel.closed = true;
      poller_.remove(channel.connection->descriptor());  // it would be reported for ever
    }
    return any;
  } catch (const PeerAborted&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), channel.connection->peer() + " " + error.what());
  }
}

// Every rank takes part in every operation that has something to reduce.
void Communicator::Impl::check_all_open() const {
  for (const Channel& channel : channels_) {
    if (channel.closed && chunk_count_ != 0) throw closed_error(*channel.connection);
  }
}

// A peer may close as soon as it owes nothing for this operation; before that it is a failure.
void Communicator::Impl::check_closed() const {
  const bool sums_missing = next_own_result_ < chunk_count_;
  for (const Channel& channel : channels_) {
    if (!channel.closed) continue;
    const bool owes = channel.link != nullptr ? !channel.link->done()
                                              : sums_missing && session_.waits_for(channel.rank);
    if (owes) throw closed_error(*channel.connection);
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
  if (stalled >= config_.timeout) {
    throw Error(ErrorKind::kPeerFailure,
                "no progress for " + seconds(config_.timeout) + " (OMNICCL_TIMEOUT); waiting for " +
                    awaited() + "; look whether its process is stopped or its host cut off");
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
  for (const auto& port : ports_) {
    if ((next_own_result_ < chunk_count_ && session_.waits_for(port->rank())) ||
        port->connection().unsent_frames() != 0) {
      names.push_back(port->connection().peer());
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

// Sends each peer an abort message, for a bounded time. The connections stay open for reading: a
// closed socket with unread data would take the message back.
void Communicator::Impl::tell_peers(const Error& cause) noexcept {
  try {
    Poller writable;
    for (Channel& channel : channels_) {
      channel.connection->drop_unstarted();
      if (channel.closed) continue;
      OutgoingFrame& frame = channel.connection->prepare();
      encode_abort({cause.kind(), cause.what()}, frame.begin());
      frame.finish(FrameKind::kAbort, {}, false);
      channel.connection->submit();
      writable.add(channel.connection->descriptor(), index_of(channel), {false, true});
    }
    send_aborts(writable, Clock::now() + kAbortTime);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("the peers were not told: ") + error.what());
  }
  // From here on nothing touches the tensors of the operation.
  for (Channel& channel : channels_) channel.connection->close_sending();
}

// Flushes the channels of `writable` (by index) until all is sent or `deadline` has come.
void Communicator::Impl::send_aborts(Poller& writable, Deadline deadline) {
  auto waiting = static_cast<std::size_t>(std::count_if(
      channels_.begin(), channels_.end(), [](const Channel& c) { return !c.closed; }));
  while (waiting != 0 && Clock::now() < deadline) {
    for (const Poller::Event& event : writable.wait(deadline - Clock::now())) {
      Connection& connection = *channels_[event.cookie].connection;
      bool gone = false;
      try {
        connection.flush();
      } catch (const Error&) {
        gone = true;  // the others still want to know
      }
      if (gone || connection.unsent_frames() == 0) {
        writable.remove(connection.descriptor());
        --waiting;
      }
    }
  }
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
  for (const Channel& channel : channels_) {
    const TrafficCounts traffic = channel.connection->traffic();
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
