// The environment variables that the libraries read, and that UCX listens only on the chosen interface.
#include "worker/collective/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "worker/collective/ucx_transport.h"

namespace zerofleet::collective {
namespace {

using ::testing::HasSubstr;

// Restores an environment variable on destruction.
class Restored {
 public:
  explicit Restored(const char* name) : name_(name), was_(std::getenv(name) == nullptr ? "" : std::getenv(name)) {}
  ~Restored() { was_.empty() ? unsetenv(name_) : setenv(name_, was_.c_str(), 1); }
  Restored(const Restored&) = delete;

 private:
  const char* name_;
  const std::string was_;
};

// The local addresses, as /proc/net/tcp spells them, that this process listens on over IPv4.
std::set<std::string> ListeningAddresses() {
  std::set<std::string> inodes, addresses;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    inodes.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, skipped, inode;
    fields >> slot >> local >> remote >> state;
    for (int i = 0; i < 5; i++) fields >> skipped;
    fields >> inode;
    if (state == "0A" && inodes.count("socket:[" + inode + "]") > 0) addresses.insert(local.substr(0, 8));
  }
  return addresses;
}

TEST(NetworkTest, UcxListensOnTheChosenInterfaceAlone) {
  const Restored ucx("UCX_NET_DEVICES"), nccl("NCCL_SOCKET_IFNAME");
  ASSERT_EQ(UseNetworkInterface("lo"), absl::OkStatus());
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=lo");
  const auto transport = UcxTransport::Create();
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_THAT(ListeningAddresses(), testing::ElementsAre("0100007F"));  // 127.0.0.1
}

TEST(NetworkTest, AnInterfaceThatDoesNotExistIsNamed) {
  const absl::Status status = UseNetworkInterface("eth99");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"eth99\" does not exist; this machine has "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lo"));
}

TEST(NetworkTest, NcclKeepsTheHostsOrderOfLaunchesUnlessTheUserSaysOtherwise) {
  constexpr char kOrder[] = "NCCL_LAUNCH_ORDER_IMPLICIT";
  const Restored order(kOrder);
  unsetenv(kOrder);
  KeepLaunchOrder();
  EXPECT_STREQ(std::getenv(kOrder), "1");
  setenv(kOrder, "0", 1);
  KeepLaunchOrder();
  EXPECT_STREQ(std::getenv(kOrder), "0");
}

}  // namespace
}  // namespace zerofleet::collective
