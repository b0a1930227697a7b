#include "engine/probe.h"

#include "engine/mesh.h"

namespace omniccl {

std::string probe_aggregator(const HostPort& place, const SecretKey& key, Milliseconds timeout,
                             const std::function<void()>& interrupted) {
  Hello hello;
  hello.role = Hello::Role::kProbe;
  const LogSink no_log;
  Mesh mesh(hello, key, {}, no_log, interrupted);
  const MeshSockets sockets =
      mesh.connect({{"aggregator " + place.to_string(), resolve(place, false), hello}}, {},
                   Clock::now() + timeout);
  return sockets.to_shard.front().address;
}

}  // namespace omniccl
