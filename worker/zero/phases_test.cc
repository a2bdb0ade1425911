// Time is counted from mark to mark, and after a wait within a phase that phase goes on.
#include "worker/zero/phases.h"

#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

// A device whose clock moves only when told to.
class FakeEvent : public device::Event {
 public:
  explicit FakeEvent(double at) : at_(at) {}
  absl::StatusOr<bool> Reached() const override { return true; }
  absl::Status Wait() const override { return absl::OkStatus(); }
  double SecondsSince(const device::Event& earlier) const override {
    return at_ - static_cast<const FakeEvent&>(earlier).at_;
  }

 private:
  const double at_;
};

class FakeStream : public device::Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status failure() const override { return absl::OkStatus(); }
  std::shared_ptr<device::Event> Record() override { return std::make_shared<FakeEvent>(now); }
  void Wait(const device::Event&) override {}
  double now = 0;
};

TEST(Phases, EachMarkLastsUntilTheNext) {
  FakeStream stream;
  PhaseMarks marks(stream);
  marks.Mark(StepPhase::kData);
  stream.now = 1;
  marks.Mark(StepPhase::kForward);
  stream.now = 3;
  {
    PhaseMarks::Within wait(marks, StepPhase::kGather);
    stream.now = 7;
  }
  stream.now = 15;
  marks.Mark(StepPhase::kOptimizer);
  stream.now = 31;
  const std::vector<PhaseMark> taken = marks.Take();
  const std::vector<PhaseSpan> spans = SpansOf(taken, *stream.Record(), FakeEvent(-100));
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans[2].phase, StepPhase::kGather);
  EXPECT_EQ(spans[2].begin, 103);
  EXPECT_EQ(spans[2].end, 107);
  EXPECT_EQ(spans[4].end, 131);
  const PhaseSeconds seconds = SumPhases(taken, *stream.Record());
  EXPECT_EQ(seconds[StepPhase::kData], 1);
  EXPECT_EQ(seconds[StepPhase::kForward], 2 + 8);
  EXPECT_EQ(seconds[StepPhase::kGather], 4);
  EXPECT_EQ(seconds[StepPhase::kOptimizer], 16);
  EXPECT_EQ(seconds[StepPhase::kBackward] + seconds[StepPhase::kReduce], 0);
  EXPECT_TRUE(marks.Take().empty());
}

}  // namespace
}  // namespace zerofleet::zero
