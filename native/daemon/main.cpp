// omniccl-aggregator: command line, signals and log of the daemon.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/unique_fd.h"
#include "daemon/server.h"
#include "protocol/secret_file.h"

namespace omniccl {
namespace {

constexpr std::uint64_t kMinSlotMemory = 64 * 1024;

struct Arguments {
  std::string listen = "127.0.0.1:8470";
  std::string secret_file;
  std::size_t threads = 0;  // 0: one for each processor
  std::uint64_t slot_memory = 64 * 1024 * 1024;
  std::string kernels = "auto";
  std::string log_level = "info";
  bool one_shot = false;
};

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("--listen", arguments.listen,
                 "HOST:PORT to listen on; * for all interfaces, port 0 for any")
      ->capture_default_str();
  app.add_option("--secret-file", arguments.secret_file,
                 "file with the secret that the workers have too (OMNICCL_SECRET_FILE); only its "
                 "owner may read it")
      ->required();
  app.add_option("--threads", arguments.threads,
                 "threads that sum; a job's shard is served by one; 0: one for each processor")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  app.add_option("--slot-memory", arguments.slot_memory,
                 "bytes in which all jobs together sum, such as 6M; best no more than the "
                 "last-level cache")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(kMinSlotMemory, std::uint64_t{1} << 40));
  app.add_option("--kernels", arguments.kernels, "inner loops: auto, or one that --help lists")
      ->capture_default_str();
  app.add_option("--log-level", arguments.log_level, "how much is logged on standard error")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_flag("--one-shot", arguments.one_shot, "exit once the first job has come and left");
  app.set_version_flag("--version", "omniccl-aggregator " OMNICCL_VERSION);
}

std::string kernel_names() {
  std::string names;
  for (const KernelTable* table : available_kernels()) {
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  return names;
}

LogSink stderr_log(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("omniccl-aggregator",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  return [logger](LogLevel severity, const std::string& text) {
    switch (severity) {
      case LogLevel::kDebug:
        logger->debug(text);
        break;
      case LogLevel::kInfo:
        logger->info(text);
        break;
      case LogLevel::kWarning:
        logger->warn(text);
        break;
    }
  };
}

// A descriptor that is readable once the process was told to end. To be called before any thread
// starts: threads inherit the mask.
UniqueFd stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  const int error = ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (error != 0) throw system_error("pthread_sigmask", error);
  UniqueFd descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor) throw system_error("signalfd", errno);
  return descriptor;
}

void serve(const Arguments& arguments) {
  const UniqueFd stop = stop_signals();
  ServerOptions options;
  options.listen = parse_host_port(arguments.listen);
  options.key = read_secret_file(arguments.secret_file);
  options.threads = arguments.threads != 0
                        ? arguments.threads
                        : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  options.slot_memory_bytes = arguments.slot_memory;
  options.one_shot = arguments.one_shot;
  options.kernels = &find_kernels(arguments.kernels);
  options.log = stderr_log(arguments.log_level);
  const LogSink log = options.log;
  const std::size_t threads = options.threads;
  Server server(std::move(options));
  // For whoever started it with port 0.
  std::printf("listening on %s\n", server.address().to_string().c_str());
  std::fflush(stdout);
  log(LogLevel::kInfo, "omniccl-aggregator " OMNICCL_VERSION " listens on " +
                           server.address().to_string() + " with " + std::to_string(threads) +
                           (threads == 1 ? " thread, " : " threads, ") +
                           std::to_string(arguments.slot_memory) + " bytes of slot memory");
  server.run(stop.get());
  log(LogLevel::kInfo, "stops");
}

int run(int argc, char** argv) {
  CLI::App app("Sums the sparse gradients of Horovod jobs: dedicated shards for hvd_omniccl.",
               "omniccl-aggregator");
  app.footer("Kernels of this processor: " + kernel_names() +
             ".\nJobs use it with OMNICCL_AGGREGATORS=HOST:PORT[,HOST:PORT...] and "
             "OMNICCL_SECRET_FILE.");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {  // or --help, or --version
    return app.exit(outcome) == 0 ? 0 : 2;
  }
  serve(arguments);
  return 0;
}

}  // namespace
}  // namespace omniccl

int main(int argc, char** argv) {
  try {
    return omniccl::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "omniccl-aggregator: %s\n", error.what());
  } catch (...) {
    std::fputs("omniccl-aggregator: unknown error\n", stderr);
  }
  return 1;
}
