#include "boot_record.h"

#include <string.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>

namespace omniccl::horovod_op {
namespace {

constexpr std::array<char, 8> kMagic{'o', 'm', 'n', 'i', 'b', 'o', 'o', 't'};

// Copies as much of `text` as fits and ends it with a NUL.
template <std::size_t Size>
void store_text(std::array<char, Size>& field, std::string_view text) {
  field.fill('\0');
  std::memcpy(field.data(), text.data(), std::min(text.size(), Size - 1));
}

// The text in `field`, which a peer filled: it may lack its NUL.
template <std::size_t Size>
std::string load_text(const std::array<char, Size>& field) {
  return {field.data(), ::strnlen(field.data(), Size)};
}

// "rank 1", "ranks 0, 2, 3 and 12 more".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

// The aggregators as one text. One that is too long for a record keeps its beginning, and a hash of
// all of it, so that two different lists still differ.
std::string aggregators_text(const std::vector<HostPort>& aggregators) {
  constexpr std::size_t kShown = 400;
  std::string text;
  for (const HostPort& place : aggregators) text += (text.empty() ? "" : ",") + place.to_string();
  if (text.empty()) return "unset";
  if (text.size() <= kShown) return text;
  return text.substr(0, kShown) + "... (" + std::to_string(aggregators.size()) +
         " aggregators, hash " + std::to_string(std::hash<std::string>()(text)) + ")";
}

// A value that must be the same on every rank.
struct SharedValue {
  const char* name;
  std::string (*text)(const SettingsRecord&);
};

std::string intercept_text(const SettingsRecord& record) {
  switch (static_cast<Intercept>(record.intercept)) {
    case Intercept::kOff:
      return "off";
    case Intercept::kTagged:
      return "tagged";
    case Intercept::kAll:
      return "all";
  }
  return "unknown";
}

// The versions come first: with another version the rest may mean something else.
const SharedValue kSharedValues[] = {
    {"the version of hvd_omniccl",
     [](const SettingsRecord& r) { return load_text(r.package_version); }},
    {"the protocol version",
     [](const SettingsRecord& r) { return std::to_string(r.protocol_version); }},
    {"OMNICCL_INTERCEPT", intercept_text},
    {"OMNICCL_BLOCK_SIZE",
     [](const SettingsRecord& r) {
       return r.block_elements == 0 ? std::string("unset") : std::to_string(r.block_elements);
     }},
    {"OMNICCL_SLOT_MEMORY",
     [](const SettingsRecord& r) {
       return r.slot_memory_bytes == 0 ? std::string("unset") : std::to_string(r.slot_memory_bytes);
     }},
    {"OMNICCL_AGGREGATORS", [](const SettingsRecord& r) { return load_text(r.aggregators); }},
    {"OMNICCL_CHECKSUM",
     [](const SettingsRecord& r) { return std::string(r.payload_checksum != 0 ? "on" : "off"); }},
};

std::optional<Error> difference_in(const SharedValue& value,
                                   const std::vector<SettingsRecord>& records) {
  std::map<std::string, std::vector<std::size_t>> ranks_by_value;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    ranks_by_value[value.text(records[rank])].push_back(rank);
  }
  if (ranks_by_value.size() == 1) return std::nullopt;
  std::string message = std::string(value.name) + " must be equal on all ranks: ";
  bool first = true;
  for (const auto& [text, ranks] : ranks_by_value) {
    if (!first) message += "; ";
    message += text + " on " + ranks_text(ranks);
    first = false;
  }
  return Error(ErrorKind::kPrecondition, message);
}

}  // namespace

BootError BootError::from(const Error& error) {
  BootError result;
  result.present = 1;
  result.kind = static_cast<std::uint8_t>(error.kind());
  store_text(result.text, error.what());
  return result;
}

std::string BootError::to_string() const { return load_text(text); }

SettingsRecord SettingsRecord::from(const Settings& settings) {
  SettingsRecord record;
  record.magic = kMagic;
  store_text(record.package_version, settings.package_version);
  record.protocol_version = kProtocolVersion;
  record.intercept = static_cast<std::uint8_t>(settings.intercept);
  record.payload_checksum = settings.payload_checksum ? 1 : 0;
  record.block_elements = settings.block_elements;
  record.slot_memory_bytes = settings.slot_memory_bytes;
  store_text(record.aggregators, aggregators_text(settings.aggregators));
  return record;
}

void SettingsRecord::set_credentials(const SessionCredentials& credentials) {
  session_id = credentials.session_id;
  key = credentials.key;
  generation = credentials.generation;
}

SessionCredentials SettingsRecord::credentials() const {
  SessionCredentials credentials;
  credentials.session_id = session_id;
  credentials.key = key;
  credentials.generation = generation;
  return credentials;
}

void SettingsRecord::wipe_key() { ::explicit_bzero(key.data(), key.size()); }

std::optional<Error> disagreement(const std::vector<SettingsRecord>& records) {
  std::vector<std::size_t> strangers;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].magic != kMagic) strangers.push_back(rank);
  }
  if (!strangers.empty()) {
    return Error(ErrorKind::kPrecondition,
                 ranks_text(strangers) +
                     " did not take part in the start of omniccl; every rank must import"
                     " hvd_omniccl, before its first allreduce");
  }
  for (const SharedValue& value : kSharedValues) {
    if (auto error = difference_in(value, records)) return error;
  }
  return combined_error_of(records);
}

Intercept widest_intercept(const std::vector<SettingsRecord>& records) {
  std::uint8_t widest = 0;
  for (const SettingsRecord& record : records) widest = std::max(widest, record.intercept);
  return static_cast<Intercept>(widest);
}

std::optional<Error> combined_error(const std::vector<BootError>& errors) {
  // Ranks with the same text are named together.
  std::map<std::string, std::vector<std::size_t>> ranks_by_text;
  ErrorKind kind = ErrorKind::kPeerFailure;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].present == 0) continue;
    ranks_by_text[errors[rank].to_string()].push_back(rank);
    // A cause that a person has to remove says more than its consequences elsewhere.
    if (errors[rank].error_kind() != ErrorKind::kPeerFailure) kind = errors[rank].error_kind();
  }
  if (ranks_by_text.empty()) return std::nullopt;
  std::string message;
  for (const auto& [text, ranks] : ranks_by_text) {
    if (!message.empty()) message += "; ";
    message += ranks_text(ranks) + ": " + text;
  }
  return Error(kind, message);
}

}  // namespace omniccl::horovod_op
