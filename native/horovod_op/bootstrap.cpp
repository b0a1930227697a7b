#include "bootstrap.h"

#include <string.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "boot_record.h"
#include "log_sink.h"
#include "process_set_guard.h"
#include "protocol/secret_file.h"

namespace omniccl::horovod_op {
namespace {

// One broadcast per rank; returns all ranks' records. Throws Error(kPeerFailure) when Horovod's own
// connections fail, which they then do on every rank.
template <typename Record>
std::vector<Record> exchange(hvd::Controller& controller, const ProcessSetIdentity& identity,
                             const Record& mine) {
  static_assert(kIsRecord<Record>);
  std::vector<Record> records(static_cast<std::size_t>(identity.size));
  std::array<std::byte, kRecordBytes> buffer{};
  try {
    for (int root = 0; root < identity.size; ++root) {
      buffer.fill(std::byte{0});
      if (root == identity.rank) std::memcpy(buffer.data(), &mine, sizeof(Record));
      controller.Bcast(buffer.data(), buffer.size(), root, hvd::Communicator::GLOBAL);
      std::memcpy(&records[static_cast<std::size_t>(root)], buffer.data(), sizeof(Record));
    }
  } catch (const std::exception& failure) {
    ::explicit_bzero(buffer.data(), buffer.size());
    throw Error(ErrorKind::kPeerFailure,
                std::string("a rank was lost while the ranks were starting: ") + failure.what());
  }
  ::explicit_bzero(buffer.data(), buffer.size());  // rank 0's record has the key in it
  return records;
}

// Counts the communicators that this process started as rank 0.
std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> generation{0};
  return ++generation;
}

SettingsRecord settings_record(const hvd::ProcessSet& process_set, int process_set_id,
                               const ProcessSetIdentity& identity, const Settings& settings) {
  SettingsRecord record = SettingsRecord::from(settings);
  try {
    if (const auto error = check_headers(process_set, process_set_id)) {
      record.error = BootError::from(*error);
    } else if (identity.rank == 0) {
      SessionCredentials credentials = SessionCredentials::random();
      credentials.generation = next_generation();
      record.set_credentials(credentials);
    }
  } catch (const Error& error) {
    record.error = BootError::from(error);
  }
  return record;
}

CommunicatorConfig communicator_config(const hvd::Controller& controller,
                                       const ProcessSetIdentity& identity,
                                       const SessionCredentials& credentials,
                                       const Settings& settings) {
  CommunicatorConfig config;
  config.rank = static_cast<std::uint32_t>(identity.rank);
  config.size = static_cast<std::uint32_t>(identity.size);
  config.credentials = credentials;
  config.aggregators = settings.aggregators;
  if (!settings.aggregators.empty()) {
    config.credentials.key = read_secret_file(settings.secret_file);
  }
  config.transport = settings.transport;
  config.congestion_control = settings.congestion_control;
  config.interface = settings.interface;
  config.first_port = settings.first_port;
  config.last_port = settings.last_port;
  config.slot_memory_bytes = settings.slot_memory_bytes;
  config.payload_checksum = settings.payload_checksum;
  config.huge_pages = settings.huge_pages;
  config.loopback_only = settings.interface.empty() && controller.GetLocalSize() == identity.size;
  config.timeout = settings.timeout;
  config.connect_timeout = settings.connect_timeout;
  config.kernels = &find_kernels(settings.kernels);
  config.log = horovod_log_sink(hvd::horovod_rank());
  return config;
}

// Runs `step` unless `decision` is to stop; its error, if any, as data.
template <typename Step>
BootError attempt(bool go_on, Step&& step) {
  if (!go_on) return {};
  try {
    step();
  } catch (const Error& error) {
    return BootError::from(error);
  } catch (const std::exception& error) {
    return BootError::from(Error(ErrorKind::kSystem, error.what()));
  }
  return {};
}

}  // namespace

std::unique_ptr<Communicator> bootstrap(const hvd::ProcessSet& process_set, int process_set_id,
                                        const Settings& settings, Intercept& intercept) {
  hvd::Controller& controller = *process_set.controller;
  const ProcessSetIdentity identity = identity_from_functions(process_set_id);

  // Three rounds, always. `failure` is the same on every rank from the end of a round on.
  SettingsRecord mine = settings_record(process_set, process_set_id, identity, settings);
  std::vector<SettingsRecord> records = exchange(controller, identity, mine);
  mine.wipe_key();
  const SessionCredentials credentials = records.front().credentials();
  records.front().wipe_key();
  intercept = widest_intercept(records);
  std::optional<Error> failure = disagreement(records);
  const bool wanted = settings.intercept != Intercept::kOff;

  std::unique_ptr<Communicator> communicator;
  EndpointRecord here;
  here.error = attempt(!failure && wanted, [&] {
    communicator = std::make_unique<Communicator>(
        communicator_config(controller, identity, credentials, settings));
    here.endpoint = communicator->endpoint();
  });
  const std::vector<EndpointRecord> places = exchange(controller, identity, here);
  if (!failure) failure = combined_error_of(places);

  OutcomeRecord outcome;
  outcome.error = attempt(!failure && wanted, [&] {
    std::vector<Endpoint> endpoints;
    for (const EndpointRecord& place : places) endpoints.push_back(place.endpoint);
    communicator->connect(endpoints);
  });
  const std::vector<OutcomeRecord> outcomes = exchange(controller, identity, outcome);
  if (!failure) failure = combined_error_of(outcomes);

  if (failure) throw *failure;
  return communicator;
}

}  // namespace omniccl::horovod_op
