#include "protocol/handshake.h"

#include <sodium.h>

#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "protocol/wire.h"

namespace omniccl {
namespace {

// Messages, in order (docs/protocol.md, "Handshake"):
//   hello      worker -> shard  magic, version, role, ids, session, generation, worker nonce
//   challenge  shard -> worker  magic, version, status, shard nonce, shard MAC
//   proof      worker -> shard  worker MAC
//   verdict    shard -> worker  verdict MAC
constexpr std::uint32_t kHelloMagic = 0x484D4F01;
constexpr std::uint32_t kChallengeMagic = 0x434D4F01;
constexpr std::uint8_t kWorkerRole = 1;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = crypto_auth_hmacsha256_BYTES;
constexpr std::size_t kHelloBytes = 4 + 2 + 1 + 1 + 4 + 4 + 4 + 8 + 16 + kNonceBytes;
constexpr std::size_t kChallengeBytes = 4 + 2 + 1 + 1 + kNonceBytes + kMacBytes;

enum Refusal : std::uint8_t { kAccepted = 0, kVersion = 1, kSession = 2, kIdentity = 3 };

constexpr std::string_view kShardLabel = "omniccl shard";
constexpr std::string_view kWorkerLabel = "omniccl worker";
constexpr std::string_view kVerdictLabel = "omniccl verdict";

using Mac = std::array<std::byte, kMacBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

void ensure_sodium() {
  if (sodium_init() < 0) throw Error(ErrorKind::kSystem, "libsodium cannot be initialised");
}

Nonce random_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

const unsigned char* as_chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// The label keeps one side's MAC from being replayed as the other's.
Mac authenticate(const SessionCredentials& credentials, std::string_view label,
                 ByteSpan transcript) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, credentials.key.data(), credentials.key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(label.data()),
                                label.size());
  crypto_auth_hmacsha256_update(&state, as_chars(transcript.data()), transcript.size());
  Mac mac;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  sodium_memzero(&state, sizeof state);
  return mac;
}

bool equal_in_constant_time(const Mac& expected, ByteSpan received) {
  return received.size() == kMacBytes &&
         sodium_memcmp(expected.data(), received.data(), kMacBytes) == 0;
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
    case kIdentity:
      return "it expects another rank, shard or number of ranks";
    default:
      return "it refused with code " + std::to_string(reason);
  }
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

WorkerHandshake::WorkerHandshake(const SessionCredentials& credentials, ConnectionIdentity identity)
    : credentials_(credentials) {
  ensure_sodium();
  ByteWriter writer(transcript_);
  writer.write(kHelloMagic);
  writer.write(kProtocolVersion);
  writer.write(kWorkerRole);
  writer.write(std::uint8_t{0});
  writer.write(identity.worker);
  writer.write(identity.shard);
  writer.write(identity.size);
  writer.write(credentials.generation);
  writer.append({reinterpret_cast<const std::byte*>(credentials.session_id.data()),
                 credentials.session_id.size()});
  writer.append(random_nonce());
}

std::vector<std::byte> WorkerHandshake::hello() const {
  return {transcript_.begin(), transcript_.begin() + kHelloBytes};
}

std::size_t WorkerHandshake::expected() const {
  switch (state_) {
    case State::kChallenge:
      return kChallengeBytes;
    case State::kVerdict:
      return kMacBytes;
    case State::kDone:
      break;
  }
  return 0;
}

std::vector<std::byte> WorkerHandshake::feed(ByteSpan bytes) {
  const Error no_proof(ErrorKind::kPrecondition,
                       "it does not know this session's key; is another program on its port?");
  if (state_ == State::kVerdict) {
    if (!equal_in_constant_time(authenticate(credentials_, kVerdictLabel, transcript_), bytes)) {
      throw no_proof;
    }
    state_ = State::kDone;
    return {};
  }
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
  if (!equal_in_constant_time(authenticate(credentials_, kShardLabel, transcript_), mac)) {
    throw no_proof;
  }
  state_ = State::kVerdict;
  const Mac proof = authenticate(credentials_, kWorkerLabel, transcript_);
  return {proof.begin(), proof.end()};
}

ShardHandshake::ShardHandshake(const SessionCredentials& credentials, std::uint32_t shard,
                               std::uint32_t size)
    : credentials_(credentials), shard_(shard), size_(size) {
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
  const auto role = reader.read<std::uint8_t>();
  const auto reserved = reader.read<std::uint8_t>();
  const auto worker = reader.read<std::uint32_t>();
  const auto shard = reader.read<std::uint32_t>();
  const auto size = reader.read<std::uint32_t>();
  const auto generation = reader.read<std::uint64_t>();
  const ByteSpan session = reader.take(credentials_.session_id.size());
  if (std::memcmp(session.data(), credentials_.session_id.data(), session.size()) != 0 ||
      generation != credentials_.generation) {
    refuse(kSession, "it belongs to another session");
  }
  if (role != kWorkerRole || reserved != 0 || shard != shard_ || size != size_ || worker >= size_) {
    refuse(kIdentity, "it gives an impossible rank, shard or number of ranks");
  }
  worker_ = worker;
  transcript_.assign(bytes.begin(), bytes.end());
  const Nonce nonce = random_nonce();
  transcript_.insert(transcript_.end(), nonce.begin(), nonce.end());
  state_ = State::kProof;
  return challenge_bytes(kAccepted, nonce, authenticate(credentials_, kShardLabel, transcript_));
}

std::vector<std::byte> ShardHandshake::on_proof(ByteSpan bytes) {
  if (!equal_in_constant_time(authenticate(credentials_, kWorkerLabel, transcript_), bytes)) {
    throw Error(ErrorKind::kPeerFailure, "it does not know this session's key");
  }
  state_ = State::kDone;
  const Mac verdict = authenticate(credentials_, kVerdictLabel, transcript_);
  return {verdict.begin(), verdict.end()};
}

void ShardHandshake::refuse(std::uint8_t reason, const std::string& text) {
  refusal_ = challenge_bytes(reason, Nonce{}, Mac{});
  throw Error(ErrorKind::kPeerFailure, text);
}

}  // namespace omniccl
