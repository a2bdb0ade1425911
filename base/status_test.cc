// Exit codes, annotation and the macros of status.h.
#include "base/status.h"

#include <signal.h>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(Status, ExitCodesFollowTheContract) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCode(absl::InvalidArgumentError("x")), 2);
  EXPECT_EQ(ExitCode(absl::DataLossError("x")), 3);
  EXPECT_EQ(ExitCode(absl::OutOfRangeError("x")), 3);
  EXPECT_EQ(ExitCode(absl::UnavailableError("x")), 4);
  EXPECT_EQ(ExitCode(absl::CancelledError("x")), 130);
  EXPECT_EQ(ExitCode(StoppedBySignal(SIGINT, "x")), 130);
  EXPECT_EQ(ExitCode(StoppedBySignal(SIGTERM, "x")), 143);
  EXPECT_EQ(ExitCode(absl::InternalError("x")), 1);
}

TEST(Status, AnnotateKeepsTheCode) {
  absl::Status status = Annotate(absl::DataLossError("short"), "file.bin");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "file.bin: short");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "file.bin").ok());
}

TEST(Status, AnnotateKeepsThePayloads) {
  absl::Status status = absl::DataLossError("short");
  status.SetPayload("whose", absl::Cord("its own"));
  EXPECT_EQ(Annotate(status, "file.bin").GetPayload("whose"), absl::Cord("its own"));
  EXPECT_EQ(ExitCode(Annotate(StoppedBySignal(SIGTERM, "stopped"), "run")), 143);
}

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError("odd");
  return x / 2;
}

absl::StatusOr<int> Quarter(int x) {
  ZF_ASSIGN_OR_RETURN(int half, Half(x));
  ZF_RETURN_IF_ERROR(Half(half));
  return half / 2;
}

TEST(Status, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Quarter(7).status().message(), "odd");
}

}  // namespace
}  // namespace zerofleet
