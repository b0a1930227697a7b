#include <gtest/gtest.h>

#include "support/ranks.h"
#include "transport/endpoint.h"
#include "transport/tcp/tcp_socket.h"

namespace omniccl::testing {
namespace {

SocketAddress ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                   std::uint8_t prefix) {
  SocketAddress address;
  address.family = 4;
  address.prefix_length = prefix;
  address.port = 4711;
  address.ip = {a, b, c, d};
  return address;
}

Endpoint endpoint(std::uint8_t host, std::initializer_list<SocketAddress> addresses) {
  Endpoint result;
  result.host_identity[0] = host;
  std::copy(addresses.begin(), addresses.end(), result.addresses.begin());
  return result;
}

std::vector<std::string> candidates(const Endpoint& local, const Endpoint& peer) {
  std::vector<std::string> names;
  for (const SocketAddress& address : candidate_addresses(local, peer)) {
    names.push_back(address.to_string());
  }
  return names;
}

TEST(CandidateAddresses, PreferACommonSubnet) {
  const Endpoint local = endpoint(1, {ipv4(10, 0, 5, 1, 23)});
  const Endpoint peer = endpoint(2, {ipv4(172, 17, 0, 1, 16), ipv4(10, 0, 4, 9, 23)});
  EXPECT_EQ(candidates(local, peer),
            (std::vector<std::string>{"10.0.4.9:4711", "172.17.0.1:4711"}));
}

TEST(CandidateAddresses, UseLoopbackFirstOnTheSameHostAndNeverOnAnother) {
  const Endpoint local = endpoint(1, {ipv4(10, 0, 0, 1, 24), ipv4(127, 0, 0, 1, 8)});
  const Endpoint peer = endpoint(1, {ipv4(10, 0, 0, 1, 24), ipv4(127, 0, 0, 1, 8)});
  EXPECT_EQ(candidates(local, peer), (std::vector<std::string>{"127.0.0.1:4711", "10.0.0.1:4711"}));
  const Endpoint other = endpoint(2, {ipv4(10, 0, 0, 2, 24), ipv4(127, 0, 0, 1, 8)});
  EXPECT_EQ(candidates(local, other), std::vector<std::string>{"10.0.0.2:4711"});
}

TEST(SocketAddress, IsWrittenAsPeopleWriteIt) {
  SocketAddress address;
  address.family = 6;
  address.port = 80;
  address.ip[15] = 1;
  EXPECT_EQ(address.to_string(), "[::1]:80");
  EXPECT_TRUE(address.is_loopback());
  address.ip[0] = 0xFE;
  EXPECT_FALSE(address.is_loopback());
}

TEST(TcpListener, PublishesItsPortOnEveryAddress) {
  const TcpListener everywhere(false, 4);
  const TcpListener local(true, 4);
  EXPECT_EQ(everywhere.endpoint().host_identity, local.endpoint().host_identity);
  EXPECT_EQ(local.endpoint().addresses[1].family, 0);
  EXPECT_TRUE(local.endpoint().addresses[0].is_loopback());
  for (const SocketAddress& address : everywhere.endpoint().addresses) {
    if (address.family == 0) break;
    EXPECT_EQ(address.port, everywhere.endpoint().addresses[0].port);
    EXPECT_NE(address.port, 0);
  }
}

TEST(Connect, FallsBackToTheNextAddress) {
  Ranks ranks(2);
  // A port on which nobody listens, then the right one.
  for (Endpoint& peer : ranks.endpoints()) {
    peer.addresses[1] = peer.addresses[0];
    peer.addresses[0] = ipv4(127, 0, 0, 1, 8);
    peer.addresses[0].port = 1;
  }
  for (const std::string& error : ranks.connect()) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace omniccl::testing
