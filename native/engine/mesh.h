// Connects every rank to every other: this rank's worker to each shard, each worker to this rank's
// shard, all of them authenticated. Used once, during Communicator::connect().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "base/unique_fd.h"
#include "protocol/handshake.h"
#include "transport/endpoint.h"
#include "transport/poller.h"
#include "transport/tcp/tcp_socket.h"

namespace omniccl {

// A connected, authenticated, non-blocking socket.
struct MeshSocket {
  UniqueFd socket;
  std::string address;  // of the other side
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

struct MeshSockets {
  std::vector<MeshSocket> to_shard;     // [rank]; this rank's own stays empty
  std::vector<MeshSocket> from_worker;  // [rank]; likewise
};

class Mesh {
 public:
  Mesh(std::uint32_t rank, std::uint32_t size, const SessionCredentials& credentials,
       const TcpListener& listener, Span<const Endpoint> endpoints, const LogSink& log);
  ~Mesh();

  // Tries the addresses of a rank in turn, again and again. Throws Error(kPeerFailure), naming who
  // is missing and why, at `deadline`; Error(kPrecondition) as soon as a rank refuses the handshake
  // and none of its addresses does better.
  MeshSockets connect(Deadline deadline);

 private:
  class Outgoing;
  class Incoming;

  bool complete() const;
  void start_next_address(std::uint32_t rank, Deadline deadline);
  void on_outgoing(std::uint32_t rank, Deadline deadline);
  void accept_all();
  void on_incoming(std::uint64_t cookie);
  void expire(Clock::time_point now, Deadline deadline);
  std::string describe_missing() const;

  std::uint32_t rank_;
  std::uint32_t size_;
  const SessionCredentials& credentials_;
  const TcpListener& listener_;
  Span<const Endpoint> endpoints_;
  const LogSink& log_;
  Poller poller_;
  MeshSockets sockets_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;              // [rank]; null once connected
  std::map<std::uint64_t, std::unique_ptr<Incoming>> incoming_;  // by cookie
  std::uint64_t next_cookie_;
};

}  // namespace omniccl
