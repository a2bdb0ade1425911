// Time is counted from mark to mark, and a wait within a phase gives its end back to that phase.
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
  marks.Mark(EnginePhase::kData);
  stream.now = 1;
  marks.Mark(EnginePhase::kForward);
  stream.now = 3;
  {
    PhaseMarks::Within wait(marks, EnginePhase::kGather);
    stream.now = 7;
  }
  stream.now = 15;
  marks.Mark(EnginePhase::kOptimizer);
  stream.now = 31;
  const PhaseSeconds seconds = SumPhases(marks.Take(), *stream.Record());
  EXPECT_EQ(seconds.data, 1);
  EXPECT_EQ(seconds.forward, 2 + 8);
  EXPECT_EQ(seconds.gather, 4);
  EXPECT_EQ(seconds.optimizer, 16);
  EXPECT_EQ(seconds.backward + seconds.reduce, 0);
  EXPECT_TRUE(marks.Take().empty());
}

}  // namespace
}  // namespace zerofleet::zero
