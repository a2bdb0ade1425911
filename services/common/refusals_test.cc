// What is logged and counted about refused clients; see refusals.h.
#include "services/common/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace zerofleet::services {
namespace {

using testing::ElementsAre;

class RefusalsTest : public testing::Test {
 protected:
  FakeClock clock_;
  std::map<std::string, int> counted_;
  std::vector<std::string> lines_;
  Refusals refusals_{{.count = [this](const char* cause) { ++counted_[cause]; },
                      .log = [this](const std::string& line) { lines_.push_back(line); }},
                     clock_};
};

TEST_F(RefusalsTest, EachIsCountedByItsCauseAndTold) {
  refusals_.AddHandshake("certificate has expired");
  refusals_.AddCall("10.0.0.3", absl::UnauthenticatedError("no token"));
  refusals_.AddCall("10.0.0.4", absl::PermissionDeniedError("a worker's token"));
  refusals_.AddReader("10.0.0.5", "it has shown no certificate");
  refusals_.AddFailedHandshake("10.0.0.6", "http request");
  EXPECT_EQ(counted_, (std::map<std::string, int>{{"certificate", 2}, {"token", 1}, {"role", 1}, {"handshake", 1}}));
  EXPECT_THAT(lines_,
              ElementsAre("refused a client's TLS handshake: certificate has expired",
                          "refused a call from 10.0.0.3: no token", "refused a call from 10.0.0.4: a worker's token",
                          "refused a reader of metrics at 10.0.0.5: it has shown no certificate",
                          "no TLS with a reader of metrics at 10.0.0.6: http request"));
}

TEST_F(RefusalsTest, WhoKnocksWithoutPauseIsCountedButDoesNotFillTheLog) {
  for (int i = 0; i < 1000; ++i) refusals_.AddHandshake("it has shown no certificate");
  EXPECT_EQ(counted_["certificate"], 1000);
  EXPECT_EQ(lines_.size(), 20u);
  clock_.Advance(1.5);
  for (int i = 0; i < 10; ++i) refusals_.AddHandshake("it has shown no certificate");
  ASSERT_EQ(lines_.size(), 21u);
  EXPECT_EQ(
      lines_.back(),
      "refused a client's TLS handshake: it has shown no certificate; 980 more were refused since the line before");
  clock_.Advance(3600);
  for (int i = 0; i < 100; ++i) refusals_.AddHandshake("it has shown no certificate");
  EXPECT_EQ(lines_.size(), 41u);  // a quiet hour allows no larger burst than at the start
}

TEST_F(RefusalsTest, NothingIsToldOnceTheServerIsGone) {
  refusals_.Detach();
  refusals_.AddHandshake("it has shown no certificate");
  refusals_.Warn("a line");
  EXPECT_TRUE(counted_.empty());
  EXPECT_TRUE(lines_.empty());
}

}  // namespace
}  // namespace zerofleet::services
