// Room for connections, and a listener that accepts, refuses and stops.
#include "services/rpc/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kProbePatience = absl::Seconds(60);

class ASocket {
 public:
  ASocket() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {}
  ~ASocket() { Close(); }
  ASocket(const ASocket&) = delete;
  int get() const { return descriptor_; }
  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

TEST(ConnectionRoom, IsBoundedForAnAddressAndForAll) {
  ConnectionRoom room(/*most=*/3, /*most_per_address=*/2);
  ASocket first, second, third, fourth;
  EXPECT_TRUE(room.Enter(first.get(), "10.0.0.1").ok());
  EXPECT_TRUE(room.Enter(second.get(), "10.0.0.1").ok());
  EXPECT_THAT(std::string(room.Enter(third.get(), "10.0.0.1").message()), HasSubstr("it has 2 connections already"));
  EXPECT_TRUE(room.Enter(third.get(), "10.0.0.2").ok());
  EXPECT_THAT(std::string(room.Enter(fourth.get(), "10.0.0.3").message()), HasSubstr("there are 3 connections"));
}

TEST(ConnectionRoom, IsThereAgainWhereASocketWasClosed) {
  ConnectionRoom room(/*most=*/2, /*most_per_address=*/1);
  ASocket first, second;
  const int reused = first.get();
  EXPECT_TRUE(room.Enter(first.get(), "10.0.0.1").ok());
  EXPECT_FALSE(room.Enter(second.get(), "10.0.0.1").ok());
  first.Close();
  ASocket third;
  ASSERT_EQ(third.get(), reused);  // the same number, but another socket
  EXPECT_TRUE(room.Enter(third.get(), "10.0.0.1").ok());
  EXPECT_TRUE(room.Enter(second.get(), "10.0.0.2").ok());
}

TEST(Listener, HandsConnectionsOverAndAnswersItsProbe) {
  const auto listener = Listener::Open({.address = {"127.0.0.1", 0}});
  ASSERT_TRUE(listener.ok()) << listener.status();
  absl::Notification taken;
  (*listener)->Start([&taken](int socket) {
    close(socket);
    if (!taken.HasBeenNotified()) taken.Notify();
  });
  ASSERT_TRUE((*listener)->Probe(kProbePatience).ok()) << (*listener)->Probe(kProbePatience);
  EXPECT_FALSE(taken.HasBeenNotified());  // a probe is not passed on
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*listener)->port()));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const ASocket client;
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  taken.WaitForNotification();
}

TEST(Listener, SaysThatNothingIsAccepted) {
  const auto listener = Listener::Open({.address = {"127.0.0.1", 0}});
  ASSERT_TRUE(listener.ok());  // it is never started
  const absl::Status status = (*listener)->Probe(absl::Milliseconds(20));
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not accept a connection within 20ms"));
}

TEST(Listener, ListensOnAllAddresses) {
  const auto listener = Listener::Open({.address = {"0.0.0.0", 0}});
  ASSERT_TRUE(listener.ok()) << listener.status();
  (*listener)->Start([](int socket) { close(socket); });
  EXPECT_TRUE((*listener)->Probe(kProbePatience).ok());
  const ASocket client;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*listener)->port()));
  inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);  // any of this machine's addresses
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

}  // namespace
}  // namespace zerofleet::services
