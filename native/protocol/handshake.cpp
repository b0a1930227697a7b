#include "protocol/handshake.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "protocol/sodium.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

// Messages, in order (docs/protocol.md, "Handshake"):
//   hello      worker -> shard  magic, version, role, what it is, worker nonce
//   challenge  shard -> worker  magic, version, status, shard nonce, shard MAC
//   proof      worker -> shard  worker MAC
//   verdict    shard -> worker  status, text, verdict MAC
constexpr std::uint32_t kHelloMagic = 0x484D4F01;
constexpr std::uint32_t kChallengeMagic = 0x434D4F01;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = crypto_auth_hmacsha256_BYTES;
constexpr std::size_t kHelloBytes = 80 + kNonceBytes;
constexpr std::size_t kChallengeBytes = 4 + 2 + 1 + 1 + kNonceBytes + kMacBytes;
constexpr std::size_t kVerdictTextBytes = 511;
constexpr std::size_t kVerdictBytes = 1 + kVerdictTextBytes + kMacBytes;

enum Status : std::uint8_t { kAccepted = 0, kVersion = 1, kSession = 2, kRefused = 3 };

constexpr std::string_view kShardLabel = "omniccl shard";
constexpr std::string_view kWorkerLabel = "omniccl worker";
constexpr std::string_view kVerdictLabel = "omniccl verdict";

using Mac = std::array<std::byte, kMacBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

Nonce random_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

const unsigned char* as_chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// The label keeps one side's MAC from being replayed as the other's.
Mac authenticate(const SecretKey& key, std::string_view label, ByteSpan transcript,
                 ByteSpan message = {}) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(label.data()),
                                label.size());
  crypto_auth_hmacsha256_update(&state, as_chars(transcript.data()), transcript.size());
  crypto_auth_hmacsha256_update(&state, as_chars(message.data()), message.size());
  Mac mac;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  sodium_memzero(&state, sizeof state);
  return mac;
}

bool equal_in_constant_time(const Mac& expected, ByteSpan received) {
  return received.size() == kMacBytes &&
         sodium_memcmp(expected.data(), received.data(), kMacBytes) == 0;
}

void write_hello(const Hello& hello, std::vector<std::byte>& out) {
  ByteWriter writer(out);
  writer.write(kHelloMagic);
  writer.write(kProtocolVersion);
  writer.write(static_cast<std::uint8_t>(hello.role));
  writer.write(static_cast<std::uint8_t>(hello.terms.payload_checksum ? 1 : 0));
  writer.write(hello.worker);
  writer.write(hello.shard);
  writer.write(hello.terms.size);
  writer.write(hello.terms.shards);
  writer.write(hello.terms.slot_memory_bytes);
  writer.write(hello.timeout_ms);
  writer.write(hello.connect_timeout_ms);
  writer.write(hello.generation);
  writer.append(
      {reinterpret_cast<const std::byte*>(hello.session_id.data()), hello.session_id.size()});
  out.resize(kHelloBytes - kNonceBytes);  // reserved, 0
}

// Without magic and version, which `reader` is past. Nothing when a field has an impossible value.
std::optional<Hello> read_hello(ByteReader& reader) {
  Hello hello;
  const auto role = reader.read<std::uint8_t>();
  const auto flags = reader.read<std::uint8_t>();
  hello.role = static_cast<Hello::Role>(role);
  hello.terms.payload_checksum = flags == 1;
  hello.worker = reader.read<std::uint32_t>();
  hello.shard = reader.read<std::uint32_t>();
  hello.terms.size = reader.read<std::uint32_t>();
  hello.terms.shards = reader.read<std::uint32_t>();
  hello.terms.slot_memory_bytes = reader.read<std::uint64_t>();
  hello.timeout_ms = reader.read<std::uint32_t>();
  hello.connect_timeout_ms = reader.read<std::uint32_t>();
  hello.generation = reader.read<std::uint64_t>();
  const ByteSpan session_id = reader.take(hello.session_id.size());
  std::memcpy(hello.session_id.data(), session_id.data(), session_id.size());
  const ByteSpan reserved = reader.take(reader.remaining() - kNonceBytes);
  const bool known_role = hello.role == Hello::Role::kWorker || hello.role == Hello::Role::kProbe;
  const bool clear = std::all_of(reserved.begin(), reserved.end(),
                                 [](std::byte byte) { return byte == std::byte{0}; });
  if (!known_role || flags > 1 || !clear) return std::nullopt;
  return hello;
}

std::vector<std::byte> challenge_bytes(std::uint8_t status, const Nonce& nonce, const Mac& mac) {
  std::vector<std::byte> out;
  ByteWriter writer(out);
  writer.write(kChallengeMagic);
  writer.write(kProtocolVersion);
  writer.write(status);
  writer.write(std::uint8_t{0});
  writer.append(nonce);
  writer.append(mac);
  return out;
}

std::string describe_refusal(std::uint8_t reason, std::uint16_t version) {
  switch (reason) {
    case kVersion:
      return "it speaks protocol version " + std::to_string(version) + ", this rank version " +
             std::to_string(kProtocolVersion) + "; install the same hvd_omniccl on every host";
    case kSession:
      return "it belongs to another session";
    default:
      return "it refused with code " + std::to_string(reason);
  }
}

Error no_proof() {
  return {ErrorKind::kPrecondition,
          "it does not know the key of this session; does it have another secret, or is another"
          " program on its port?"};
}

}  // namespace

SessionCredentials::~SessionCredentials() { sodium_memzero(key.data(), key.size()); }

SessionCredentials SessionCredentials::random() {
  ensure_sodium();
  SessionCredentials credentials;
  randombytes_buf(credentials.session_id.data(), credentials.session_id.size());
  randombytes_buf(credentials.key.data(), credentials.key.size());
  return credentials;
}

std::optional<std::string> difference(const SessionTerms& terms, const SessionTerms& other) {
  const auto both = [](const char* what, auto left, auto right) {
    std::ostringstream text;
    text << what << " " << left << " and " << right;
    return text.str();
  };
  if (terms.size != other.size) return both("numbers of ranks", terms.size, other.size);
  if (terms.shards != other.shards) return both("numbers of shards", terms.shards, other.shards);
  if (terms.slot_memory_bytes != other.slot_memory_bytes) {
    return both("slot memories (OMNICCL_SLOT_MEMORY, 0 = default)", terms.slot_memory_bytes,
                other.slot_memory_bytes);
  }
  if (terms.payload_checksum != other.payload_checksum) {
    return both("checksum settings (OMNICCL_CHECKSUM)", terms.payload_checksum ? "on" : "off",
                other.payload_checksum ? "on" : "off");
  }
  return std::nullopt;
}

WorkerHandshake::WorkerHandshake(const SecretKey& key, const Hello& hello) : key_(key) {
  ensure_sodium();
  write_hello(hello, transcript_);
  ByteWriter(transcript_).append(random_nonce());
}

std::vector<std::byte> WorkerHandshake::hello() const {
  return {transcript_.begin(), transcript_.begin() + kHelloBytes};
}

std::size_t WorkerHandshake::expected() const {
  switch (state_) {
    case State::kChallenge:
      return kChallengeBytes;
    case State::kVerdict:
      return kVerdictBytes;
    case State::kDone:
      break;
  }
  return 0;
}

std::vector<std::byte> WorkerHandshake::feed(ByteSpan bytes) {
  if (state_ == State::kChallenge) return on_challenge(bytes);
  on_verdict(bytes);
  return {};
}

std::vector<std::byte> WorkerHandshake::on_challenge(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (reader.read<std::uint32_t>() != kChallengeMagic) {
    throw Error(ErrorKind::kPrecondition, "it does not speak this protocol");
  }
  const auto version = reader.read<std::uint16_t>();
  const auto status = reader.read<std::uint8_t>();
  reader.read<std::uint8_t>();
  const ByteSpan nonce = reader.take(kNonceBytes);
  const ByteSpan mac = reader.take(kMacBytes);
  if (status != kAccepted) throw Error(ErrorKind::kPrecondition, describe_refusal(status, version));
  transcript_.insert(transcript_.end(), nonce.begin(), nonce.end());
  if (!equal_in_constant_time(authenticate(key_, kShardLabel, transcript_), mac)) throw no_proof();
  state_ = State::kVerdict;
  const Mac proof = authenticate(key_, kWorkerLabel, transcript_);
  return {proof.begin(), proof.end()};
}

void WorkerHandshake::on_verdict(ByteSpan bytes) {
  const ByteSpan message = bytes.slice(0, kVerdictBytes - kMacBytes);
  const ByteSpan mac = bytes.slice(message.size(), kMacBytes);
  if (!equal_in_constant_time(authenticate(key_, kVerdictLabel, transcript_, message), mac)) {
    throw no_proof();
  }
  ByteReader reader(message);
  if (reader.read<std::uint8_t>() != kAccepted) {
    const ByteSpan text = reader.take(kVerdictTextBytes);
    const std::byte* const end = std::find(text.begin(), text.end(), std::byte{0});
    throw Error(ErrorKind::kPrecondition,
                printable(text.slice(0, static_cast<std::size_t>(end - text.begin()))));
  }
  state_ = State::kDone;
}

ShardHandshake::ShardHandshake(const SecretKey& key, Admission& admission)
    : key_(key), admission_(admission) {
  ensure_sodium();
}

std::size_t ShardHandshake::expected() const {
  switch (state_) {
    case State::kHello:
      return kHelloBytes;
    case State::kProof:
      return kMacBytes;
    case State::kDone:
      break;
  }
  return 0;
}

std::vector<std::byte> ShardHandshake::feed(ByteSpan bytes) {
  return state_ == State::kHello ? on_hello(bytes) : on_proof(bytes);
}

std::vector<std::byte> ShardHandshake::on_hello(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (reader.read<std::uint32_t>() != kHelloMagic) {
    throw Error(ErrorKind::kPeerFailure, "it does not speak this protocol");
  }
  const auto version = reader.read<std::uint16_t>();
  if (version != kProtocolVersion) {
    refuse(kVersion, "it speaks protocol version " + std::to_string(version));
  }
  const std::optional<Hello> hello = read_hello(reader);
  if (!hello) throw Error(ErrorKind::kPeerFailure, "it sent an impossible hello");
  peer_ = *hello;
  if (!admission_.knows(peer_)) refuse(kSession, "it belongs to another session");
  transcript_.assign(bytes.begin(), bytes.end());
  const Nonce nonce = random_nonce();
  transcript_.insert(transcript_.end(), nonce.begin(), nonce.end());
  state_ = State::kProof;
  return challenge_bytes(kAccepted, nonce, authenticate(key_, kShardLabel, transcript_));
}

std::vector<std::byte> ShardHandshake::on_proof(ByteSpan bytes) {
  if (!equal_in_constant_time(authenticate(key_, kWorkerLabel, transcript_), bytes)) {
    throw Error(ErrorKind::kPeerFailure, "it does not know the key of its session");
  }
  try {
    admission_.admit(peer_);
  } catch (const Error& refusal) {
    refusal_ = verdict(kRefused, refusal.what());
    throw;
  }
  state_ = State::kDone;
  return verdict(kAccepted, "");
}

std::vector<std::byte> ShardHandshake::verdict(std::uint8_t status, const std::string& text) const {
  std::vector<std::byte> out;
  ByteWriter writer(out);
  writer.write(status);
  const std::size_t size = std::min(text.size(), kVerdictTextBytes);
  writer.append({reinterpret_cast<const std::byte*>(text.data()), size});
  out.resize(1 + kVerdictTextBytes);
  writer.append(authenticate(key_, kVerdictLabel, transcript_, out));
  return out;
}

void ShardHandshake::refuse(std::uint8_t reason, const std::string& text) {
  refusal_ = challenge_bytes(reason, Nonce{}, Mac{});
  throw Error(ErrorKind::kPeerFailure, text);
}

}  // namespace omniccl
