// START HERE for the daemon: dedicated shards, for any number of jobs at once. Listens, finds out
// who comes, and hands each job to a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.h"
#include "daemon/job_registry.h"
#include "daemon/service_thread.h"
#include "encoder/kernels.h"
#include "protocol/handshake.h"
#include "transport/poller.h"
#include "transport/socket/host_port.h"
#include "transport/socket/stream_socket.h"

namespace omniccl {

struct ServerOptions {
  HostPort listen;                       // port 0: any
  SecretKey key{};                       // of all jobs
  std::size_t threads = 1;               // each job is served by one of them
  std::uint64_t slot_memory_bytes = 0;   // for all jobs together
  bool one_shot = false;                 // run() returns when the first jobs have left
  const KernelTable* kernels = nullptr;  // nullptr: the best that this processor has
  LogSink log;                           // called from any of its threads; may not be empty
};

class Server final : private Admission {
 public:
  // Throws Error(kPrecondition) when it cannot listen there.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens.
  SocketAddress address() const { return listener_.address(); }
  // Serves until `stop` (a descriptor) is readable, or with one_shot until all jobs that came have
  // left for two seconds.
  void run(int stop);

 private:
  bool knows(const Hello&) const override { return true; }
  void admit(const Hello& hello) override;
  void on_peer(const Hello& hello, PeerSocket socket);
  bool one_shot_done(Clock::time_point now);
  void listen_locally();
  std::vector<const Listener*> listeners() const;

  ServerOptions options_;
  Listener listener_;
  std::optional<Listener> local_listener_;  // for the ranks of this host
  JobRegistry registry_;
  bool any_job_ = false;
  Clock::time_point last_busy_;
  std::vector<std::unique_ptr<ServiceThread>> threads_;  // last: they call registry_
};

}  // namespace omniccl
