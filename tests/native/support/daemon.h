// An aggregator daemon in this process, on a free port of loopback.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_signal.h"
#include "daemon/server.h"
#include "engine/communicator.h"

namespace omniccl::testing {

class Daemon {
 public:
  explicit Daemon(ServerOptions options = {}) {
    if (options.threads == 1) options.threads = 2;
    if (options.slot_memory_bytes == 0) options.slot_memory_bytes = 64 << 20;
    options.listen = {"127.0.0.1", 0};
    options.key = SessionCredentials::random().key;
    key_ = options.key;
    options.log = [this](LogLevel, const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex_);
      log_ += text + "\n";
    };
    server_ = std::make_unique<Server>(std::move(options));
    place_ = {"127.0.0.1", server_->address().port};
    thread_ = std::thread([this] {
      server_->run(stop_.descriptor());
      server_.reset();  // as a process ends
    });
  }
  ~Daemon() { stop(); }

  void stop() {
    stop_.set();
    wait();
  }
  // Until it ends by itself.
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  const HostPort& place() const { return place_; }
  const SecretKey& key() const { return key_; }
  std::string log() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }

  // Makes a rank use `shards` shards of this daemon.
  std::function<void(CommunicatorConfig&)> shards(std::size_t shards) const {
    return [this, shards](CommunicatorConfig& config) {
      config.aggregators.assign(shards, place_);
      config.credentials.key = key_;
    };
  }

 private:
  mutable std::mutex mutex_;  // of log_
  std::string log_;
  EventSignal stop_;
  SecretKey key_{};
  HostPort place_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace omniccl::testing
