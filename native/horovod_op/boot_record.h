// What the ranks of a process set tell each other before they connect, as records of one fixed size
// that travel through Horovod's controller, and the decision that every rank draws from them. Pure:
// the same records give the same decision everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "protocol/handshake.h"
#include "settings.h"
#include "transport/endpoint.h"

namespace omniccl::horovod_op {

// Every record is this large, in every version of this package, so that ranks of different versions
// still exchange them and can say so.
inline constexpr std::size_t kRecordBytes = 2048;
inline constexpr std::size_t kErrorTextBytes = 1024;

// An error as data. Empty when all is well.
struct BootError {
  std::uint8_t present = 0;
  std::uint8_t kind = 0;  // ErrorKind
  std::array<char, kErrorTextBytes> text{};

  static BootError from(const Error& error);
  ErrorKind error_kind() const { return static_cast<ErrorKind>(kind); }
  std::string to_string() const;
};

// First round: what must be equal. Rank 0's also hands out the session's credentials.
struct SettingsRecord {
  std::array<char, 8> magic{};
  std::array<char, 32> package_version{};
  std::uint16_t protocol_version = 0;
  std::uint8_t intercept = 0;
  std::uint8_t payload_checksum = 0;
  std::uint32_t block_elements = 0;
  std::uint64_t slot_memory_bytes = 0;
  std::array<char, 512> aggregators{};
  std::array<std::uint8_t, 16> session_id{};
  std::array<std::uint8_t, 32> key{};
  std::uint64_t generation = 0;
  BootError error;

  static SettingsRecord from(const Settings& settings);
  void set_credentials(const SessionCredentials& credentials);
  SessionCredentials credentials() const;
  void wipe_key();
};

// Second round: where each rank listens. Third round: whether it could connect.
struct EndpointRecord {
  Endpoint endpoint;
  BootError error;
};

struct OutcomeRecord {
  BootError error;
};

template <typename Record>
constexpr bool kIsRecord = std::is_trivially_copyable_v<Record> && sizeof(Record) <= kRecordBytes;
static_assert(kIsRecord<SettingsRecord> && kIsRecord<EndpointRecord> && kIsRecord<OutcomeRecord>);

// The first difference between the ranks' settings, as an error that shows each value and the
// ranks that have it; or the ranks' own errors; or nothing.
std::optional<Error> disagreement(const std::vector<SettingsRecord>& records);

// The mode that takes most, by which all ranks split responses even when they disagree on it: one
// that took a tensor which another left to the stock operation would leave that one waiting.
Intercept widest_intercept(const std::vector<SettingsRecord>& records);

// The errors among `errors` (one a rank) as one error, or nothing.
std::optional<Error> combined_error(const std::vector<BootError>& errors);

template <typename Record>
std::optional<Error> combined_error_of(const std::vector<Record>& records) {
  std::vector<BootError> errors;
  for (const Record& record : records) errors.push_back(record.error);
  return combined_error(errors);
}

}  // namespace omniccl::horovod_op
