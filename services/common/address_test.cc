// Addresses that parse, and one line for each that does not.
#include "services/common/address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;

TEST(Address, ParsesWhatPeopleWrite) {
  struct Row {
    const char* text;
    const char* host;
    int port;
  };
  for (const Row& row : {Row{"node-1:7070", "node-1", 7070}, Row{"10.0.0.1:0", "10.0.0.1", 0},
                         Row{"[::1]:65535", "::1", 65535}, Row{"zf-0.zf.ns.svc:7070", "zf-0.zf.ns.svc", 7070}}) {
    const auto address = ParseAddress(row.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, row.host);
    EXPECT_EQ(address->port, row.port);
    EXPECT_EQ(address->ToString(), row.text);
  }
}

TEST(Address, RefusesWhatIsNotAnAddressAndQuotesIt) {
  for (const char* text : {"", ":", "node-1", "node-1:", ":7070", "node-1:-1", "node-1:+1", "node-1: 7", "node-1:65536",
                           "::1:7070", "[::1:7070", "http://node-1:7070", "a b:1", "a,b:1"}) {
    const auto address = ParseAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(std::string("\"") + text + "\""));
  }
}

TEST(Address, TellsIpAddressesFromNames) {
  for (const char* text : {"127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1"}) EXPECT_TRUE(IsIpAddress(text)) << text;
  for (const char* text : {"", "localhost", "127.0.0", "127.0.0.1:9", "[::1]", "1.2.3.4.5"}) {
    EXPECT_FALSE(IsIpAddress(text)) << text;
  }
}

TEST(Address, IsFoundInTheNameOfAPeer) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.3:4242"), "10.0.0.3");
  EXPECT_EQ(AddressOfPeer("ipv6:[fe80::1]:4242"), "fe80::1");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::1%5D:4242"), "::1");
  for (const char* peer : {"", "unix:/run/socket", "unix:", "ipv4:", "unknown"}) EXPECT_EQ(AddressOfPeer(peer), "");
}

TEST(Address, SaysWhyItCannotListen) {
  const absl::Status elsewhere = CannotListen({"192.0.2.1", 7070});  // TEST-NET-1: no machine has it
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(elsewhere.message()), HasSubstr("192.0.2.1:7070: Cannot assign"));
}

}  // namespace
}  // namespace zerofleet::services
