#include <gtest/gtest.h>

#include "support/ranks.h"
#include "transport/endpoint.h"
#include "transport/socket/host_port.h"
#include "transport/socket/local_address.h"
#include "transport/socket/stream_socket.h"

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

// Reachable by route is what begins with `routed`.
std::vector<std::string> candidates(const Endpoint& local, const Endpoint& peer,
                                    const std::string& routed = "none") {
  const auto has_route = [&](const SocketAddress& address) {
    return address.to_string().rfind(routed, 0) == 0;
  };
  std::vector<std::string> names;
  for (const SocketAddress& address : candidate_addresses(local, peer, has_route)) {
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

TEST(CandidateAddresses, PreferARouteToNone) {
  const Endpoint local = endpoint(1, {ipv4(10, 0, 5, 1, 24)});
  const Endpoint peer =
      endpoint(2, {ipv4(172, 17, 0, 1, 16), ipv4(192, 168, 7, 1, 24), ipv4(10, 0, 5, 9, 24)});
  EXPECT_EQ(candidates(local, peer, "192.168"),
            (std::vector<std::string>{"10.0.5.9:4711", "192.168.7.1:4711", "172.17.0.1:4711"}));
}

TEST(CandidateAddresses, UseLoopbackFirstOnTheSameHostAndNeverOnAnother) {
  const Endpoint local = endpoint(1, {ipv4(10, 0, 0, 1, 24), ipv4(127, 0, 0, 1, 8)});
  const Endpoint peer = endpoint(1, {ipv4(10, 0, 0, 1, 24), ipv4(127, 0, 0, 1, 8)});
  EXPECT_EQ(candidates(local, peer), (std::vector<std::string>{"127.0.0.1:4711", "10.0.0.1:4711"}));
  const Endpoint other = endpoint(2, {ipv4(10, 0, 0, 2, 24), ipv4(127, 0, 0, 1, 8)});
  EXPECT_EQ(candidates(local, other), std::vector<std::string>{"10.0.0.2:4711"});
}

TEST(CandidateAddresses, PreferSharedMemoryOnTheSameHostAndNeverOnAnother) {
  const SocketAddress shared_memory = random_local_address();
  const Endpoint local = endpoint(1, {ipv4(10, 0, 0, 1, 24)});
  const Endpoint peer = endpoint(1, {ipv4(10, 0, 0, 1, 24), ipv4(127, 0, 0, 1, 8), shared_memory});
  EXPECT_EQ(candidates(local, peer),
            (std::vector<std::string>{"shared memory", "127.0.0.1:4711", "10.0.0.1:4711"}));
  const Endpoint other = endpoint(2, {ipv4(10, 0, 0, 2, 24), shared_memory});
  EXPECT_EQ(candidates(local, other), std::vector<std::string>{"10.0.0.2:4711"});
}

TEST(LocalAddress, IsAnotherForEachRankAndTheSameForOneDaemon) {
  EXPECT_NE(random_local_address().ip, random_local_address().ip);
  const SocketAddress daemon = ipv4(127, 0, 0, 1, 8);
  EXPECT_TRUE(local_address_of(daemon).is_local());
  EXPECT_EQ(local_address_of(daemon).ip, local_address_of(daemon).ip);
  SocketAddress elsewhere = daemon;
  elsewhere.port = 4712;
  EXPECT_NE(local_address_of(daemon).ip, local_address_of(elsewhere).ip);
  EXPECT_NE(local_address_of(daemon).ip, local_address_of(ipv4(127, 0, 0, 2, 8)).ip);
}

TEST(LocalAddress, LeadsToADaemonOfThisHostAtItsAddressOrAtAny) {
  const SocketAddress daemon = ipv4(127, 0, 0, 1, 8);
  std::vector<std::array<std::uint8_t, 16>> names;
  for (const SocketAddress& way : local_ways_to(daemon)) names.push_back(way.ip);
  SocketAddress any = ipv4(0, 0, 0, 0, 0);
  SocketAddress any6 = any;
  any6.family = 6;
  EXPECT_EQ(names,
            (std::vector<std::array<std::uint8_t, 16>>{
                local_address_of(daemon).ip, local_address_of(any6).ip, local_address_of(any).ip}));
  EXPECT_TRUE(local_ways_to(ipv4(192, 0, 2, 1, 24)).empty());  // of RFC 5737: nobody's
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

TEST(Listener, PublishesItsPortOnEveryAddress) {
  NetworkOptions loopback_only;
  loopback_only.loopback_only = true;
  const Listener everywhere(NetworkOptions{}, 4);
  const Listener local(loopback_only, 4);
  EXPECT_EQ(everywhere.endpoint().host_identity, local.endpoint().host_identity);
  EXPECT_EQ(local.endpoint().addresses[1].family, 0);
  EXPECT_TRUE(local.endpoint().addresses[0].is_loopback());
  for (const SocketAddress& address : everywhere.endpoint().addresses) {
    if (address.family == 0) break;
    EXPECT_EQ(address.port, everywhere.endpoint().addresses[0].port);
    EXPECT_NE(address.port, 0);
  }
}

TEST(Listener, OfOneInterfacePublishesOneAddressOfIt) {
  NetworkOptions options;
  options.interface = "lo";
  const Listener listener(options, 4);
  EXPECT_TRUE(listener.endpoint().addresses[0].is_loopback());
  EXPECT_EQ(listener.endpoint().addresses[1].family, 0);
  EXPECT_EQ(listener.endpoint().addresses[0].to_string(), listener.address().to_string());
}

template <typename Function>
std::string error_of(Function&& function) {
  try {
    function();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Listener, OfAnUnknownInterfaceNamesThoseThatExist) {
  NetworkOptions options;
  options.interface = "nonesuch0";
  const std::string error = error_of([&] { Listener(options, 4); });
  EXPECT_NE(error.find("nonesuch0"), std::string::npos) << error;
  EXPECT_NE(error.find("there are: "), std::string::npos) << error;
  EXPECT_NE(error.find("lo", error.find("there are: ")), std::string::npos) << error;
}

TEST(Listener, TakesTheFirstFreePortOfARangeAndSaysWhenThereIsNone) {
  // A range that is free: three ports after one that the system gave us, tried until they are.
  for (int attempt = 0; attempt < 20; ++attempt) {
    NetworkOptions options;
    options.loopback_only = true;
    options.first_port = Listener(options, 4).address().port;
    if (options.first_port > 65'000) continue;
    options.last_port = static_cast<std::uint16_t>(options.first_port + 1);
    try {
      const Listener first(options, 4);
      const Listener second(options, 4);
      if (first.address().port != options.first_port) continue;  // somebody else took it
      EXPECT_EQ(second.address().port, options.last_port);
      const std::string error = error_of([&] { Listener(options, 4); });
      EXPECT_NE(error.find("OMNICCL_PORT_RANGE"), std::string::npos) << error;
      EXPECT_NE(error.find(std::to_string(options.last_port)), std::string::npos) << error;
      return;
    } catch (const Error&) {
      continue;  // likewise
    }
  }
  FAIL() << "no two free ports in a row";
}

TEST(Listener, OnATakenAddressSaysWhich) {
  SocketAddress address = ipv4(127, 0, 0, 1, 8);
  address.port = 0;
  const Listener first(address, 4);
  const std::string error = error_of([&] { Listener(first.address(), 4); });
  EXPECT_NE(error.find(first.address().to_string()), std::string::npos) << error;
}

TEST(HostPort, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_host_port("nic1:4711").host, "nic1");
  EXPECT_EQ(parse_host_port("nic1:4711").port, 4711);
  EXPECT_EQ(parse_host_port("[fd00::5]:80").host, "fd00::5");
  EXPECT_EQ(parse_host_port("[fd00::5]:80").to_string(), "[fd00::5]:80");
  EXPECT_EQ(parse_host_port(":0").host, "");
  for (const char* text :
       {"", "nic1", "nic1:", "nic1:x", "nic1:70000", "fd00::5:80", "nic1:-1", "nic1:80 ", ":"}) {
    EXPECT_NE(error_of([&] { parse_host_port(text); }), "") << text;
  }
}

TEST(HostPort, ResolvesLiteralsAndNames) {
  const auto first = [](const char* text, bool for_listening) {
    return resolve(parse_host_port(text), for_listening).at(0).to_string();
  };
  EXPECT_EQ(first("127.0.0.1:80", false), "127.0.0.1:80");
  EXPECT_EQ(first("[::1]:80", false), "[::1]:80");
  EXPECT_FALSE(resolve(parse_host_port("localhost:80"), false).empty());
  const std::string everywhere = first("*:80", true);
  EXPECT_TRUE(everywhere == "[::]:80" || everywhere == "0.0.0.0:80") << everywhere;
  const std::string error =
      error_of([] { resolve(parse_host_port("no-such-host.invalid:80"), false); });
  EXPECT_NE(error.find("no-such-host.invalid"), std::string::npos) << error;
}

TEST(Route, ToLoopbackIsThere) { EXPECT_TRUE(has_route(ipv4(127, 0, 0, 1, 8))); }

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
