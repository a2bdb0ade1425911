// What a trace keeps, when, and how it is written.
#include "worker/trainer/step_trace.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/profile/traced_device.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StepTraceTest : public testing::Test {
 protected:
  FakeClock clock_;
  std::vector<std::string> files_;
  StepTrace trace_{{3, 4}, clock_, [this](const std::string& json) { files_.push_back(json); }};
  device::CpuStream stream_;
};

TEST_F(StepTraceTest, KeepsTheStepsThatAreWanted) {
  EXPECT_FALSE(trace_.Wants(2));
  EXPECT_TRUE(trace_.Wants(3));
  EXPECT_FALSE(trace_.Wants(5));
  trace_.Enter(1, 7);
  trace_.Add("Early", {.began = 0, .seconds = 1});
  clock_.Advance(100);
  ASSERT_TRUE(trace_.Begin(stream_).ok());
  trace_.Add("LinearForward", {.began = 100, .seconds = 0.25, .flops = 48, .bytes = 16});
  std::thread([&] {
    trace_.Add(device::kCopyName, {.began = 100.5, .seconds = 0.125, .flops = 0, .bytes = 8});
  }).join();
  clock_.Advance(2);
  trace_.AddCollective("data", {.operation = collective::Operation::kAllGather,
                                .unit = "block.0",
                                .traffic = {.sent = 64, .to_other_nodes = 0},
                                .gathered_bytes = 128,
                                .seconds = 0.5});
  trace_.AddPause("evaluate", 0.5);
  trace_.End(3, {{zero::StepPhase::kData, 0, 0.5}, {zero::StepPhase::kForward, 0.5, 2}});
  EXPECT_TRUE(files_.empty());
  ASSERT_TRUE(trace_.Begin(stream_).ok());
  trace_.End(4, {{zero::StepPhase::kBackward, 2, 3}});
  trace_.Add("Late", {.began = 103, .seconds = 1});
  ASSERT_EQ(files_.size(), 1u);
  const std::string& file = files_[0];
  EXPECT_THAT(file, HasSubstr(R"("first_step":3,"last_step":4,"origin_unix_us":100000000,"dropped":0)"));
  EXPECT_THAT(file, HasSubstr(R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rank 1"}})"));
  EXPECT_THAT(file, HasSubstr(R"("ts":0.000,"dur":249999.999,"name":"LinearForward","args":{"bytes":16,"flops":48}})"));
  EXPECT_THAT(file, HasSubstr(R"("ts":500000.000,"dur":124999.999,"name":"Copy","args":{"bytes":8}})"));
  EXPECT_THAT(file, HasSubstr(R"("args":{"name":"copies, thread 1"})"));
  EXPECT_THAT(
      file,
      HasSubstr(
          R"("ts":1500000.000,"dur":499999.999,"name":"all_gather block.0","args":{"bytes":64,"gathered_bytes":128}})"));
  EXPECT_THAT(file,
              HasSubstr(R"("ts":500000.000,"dur":1499999.999,"name":"forward","args":{"step":3,"generation":7}})"));
  EXPECT_THAT(file, HasSubstr(R"("ts":0.000,"dur":1999999.999,"name":"step 3")"));
  EXPECT_THAT(file, HasSubstr(R"("name":"evaluate")"));
  EXPECT_THAT(file, HasSubstr(R"("name":"step 4")"));
  EXPECT_THAT(file, Not(HasSubstr("Early")));
  EXPECT_THAT(trace_.Json(), Not(HasSubstr("Late")));
}

TEST_F(StepTraceTest, ARecoveryIsTracedToo) {
  trace_.Enter(0, 1);
  ASSERT_TRUE(trace_.Begin(stream_).ok());
  trace_.End(3, {{zero::StepPhase::kForward, 0, 1}});
  trace_.Enter(1, 2);
  trace_.Add("BetweenViews", {.began = 0, .seconds = 1});
  clock_.Advance(10);
  for (const int64_t step : {3, 4}) {
    ASSERT_TRUE(trace_.Begin(stream_).ok());
    trace_.End(step, {{zero::StepPhase::kForward, 0, 1}});
  }
  ASSERT_EQ(files_.size(), 1u);
  EXPECT_THAT(files_[0], HasSubstr(R"("pid":0,"tid":1002,"ts":0.000)"));
  EXPECT_THAT(files_[0],
              HasSubstr(R"("ts":10000000.000,"dur":999999.999,"name":"forward","args":{"step":4,"generation":2}})"));
  EXPECT_THAT(files_[0], Not(HasSubstr("BetweenViews")));
}

// Perfetto drops a span that begins before the previous one in its lane has ended.
TEST_F(StepTraceTest, SpansOfALaneDoNotOverlap) {
  class Today : public FakeClock {
   public:
    absl::Time Now() const override { return FakeClock::Now() + absl::Seconds(1'800'000'000); }
  };
  const Today today;
  StepTrace trace({3, 4}, today, [this](const std::string& json) { files_.push_back(json); });
  ASSERT_TRUE(trace.Begin(stream_).ok());
  trace.End(4, {{zero::StepPhase::kData, 0, 13.335e-6},
                {zero::StepPhase::kForward, 13.335e-6, 13.475e-6},
                {zero::StepPhase::kBackward, 13.475e-6, 13.475e-6}});
  EXPECT_THAT(files_.at(0), HasSubstr(R"("origin_unix_us":1800000000000000)"));
  EXPECT_THAT(files_[0], HasSubstr(R"("ts":0.000,"dur":13.334,"name":"data")"));
  EXPECT_THAT(files_[0], HasSubstr(R"("dur":0.139,"name":"forward")"));
  EXPECT_THAT(files_[0], HasSubstr(R"("dur":0.000,"name":"backward")"));
}

}  // namespace
}  // namespace zerofleet::trainer
