// The bar and the lines, under a fake clock.
#include "cli/report/progress.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

v1::Event Start(int64_t steps) {
  v1::Event event;
  v1::StartEvent& start = *event.mutable_start();
  start.mutable_config()->set_steps(steps);
  start.mutable_config()->set_precision("bf16");
  start.mutable_config()->mutable_parallel()->set_zero_stage(2);
  start.set_world_size(2);
  start.set_device("cpu");
  start.set_parameters(124439808);
  return event;
}

v1::Event Step(int64_t number) {
  v1::Event event;
  event.mutable_step()->set_step(number);
  event.mutable_step()->set_loss(2.5);
  event.mutable_step()->set_seconds(0.5);
  event.mutable_step()->set_tokens_per_second(8192);
  event.mutable_step()->set_mfu(0.345);
  return event;
}

TEST(Progress, PlainLinesComeEveryTwoSecondsAndAtTheEdges) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  progress.Show(Start(100));
  for (int step = 1; step <= 100; ++step) {
    clock.Advance(0.5);
    if (step <= 9 || step == 100) progress.Show(Step(step));
  }
  progress.Close();
  EXPECT_EQ(out.str(),
            "124.4M parameters, 2 workers on cpu, ZeRO stage 2, bf16\n"
            "step 1/100  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 49.5s  elapsed 0.5s\n"
            "step 5/100  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 47.5s  elapsed 2.5s\n"
            "step 9/100  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 45.5s  elapsed 4.5s\n"
            "step 100/100  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 0.0s  elapsed 50.0s\n");
}

TEST(Progress, AShortRunShowsEveryStep) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  progress.Show(Start(3));
  out.str("");
  for (int step = 1; step <= 3; ++step) progress.Show(Step(step));
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(Progress, TheBarIsRewrittenInPlaceAndNotesStandAboveIt) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal::OfSize(0, 0, /*live=*/true, /*color=*/false));
  progress.Show(Start(4));
  out.str("");
  clock.Advance(0.5);
  progress.Show(Step(1));
  const std::string bar =
      "\r\x1b[K[======                  ] step 1/4  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 1.5s  elapsed 0.5s";
  EXPECT_EQ(out.str(), bar);
  clock.Advance(0.01);
  progress.Show(Step(2));
  EXPECT_EQ(out.str(), bar) << "too soon to draw again";
  out.str("");
  progress.Note("hello");
  EXPECT_EQ(out.str(), "\r\x1b[Khello\n" + bar);
  out.str("");
  progress.Close();
  EXPECT_EQ(out.str(), "\n");
}

// One drawing of the bar on a terminal of `columns` columns.
std::string BarAt(int columns, int64_t step) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal::OfSize(columns, 24, /*live=*/true, /*color=*/false));
  progress.Show(Start(100'000));
  out.str("");
  clock.Advance(3000);
  progress.Show(Step(step));
  const std::string text = out.str();
  return text.substr(std::min(text.size(), text.find("\x1b[K") + 3));
}

TEST(Progress, TheBarFitsTheTerminal) {
  EXPECT_EQ(
      BarAt(200, 50'000),
      "[============            ] step 50000/100000  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 6h56m  elapsed 50m00s");
  EXPECT_EQ(BarAt(80, 50'000), "[======      ] step 50000/100000  loss 2.5000  8.2K tok/s  MFU 34.5%  ETA 6h56m");
  EXPECT_EQ(BarAt(60, 50'000), "[=======        ] step 50000/100000  loss 2.5000  ETA 6h56m");
  for (const int columns : {20, 40, 60, 61, 75, 80, 100, 120, 200}) {
    // One column stays free, so that no terminal begins a new line; the step is never omitted.
    const int most = std::max(columns - 1, 9 + DisplayWidth("step 99999/100000"));
    for (const int64_t step : {1, 50'000, 99'999}) EXPECT_LE(DisplayWidth(BarAt(columns, step)), most) << columns;
  }
}

TEST(Progress, NotesAreBrokenButErrorsStayOneLine) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal::OfSize(20, 24, /*live=*/true, /*color=*/false));
  progress.Note("one two three four five");
  progress.Note("zerofleet: one two three four five");
  EXPECT_EQ(out.str(), "one two three four\n  five\nzerofleet: one two three four five\n");
}

TEST(Progress, SaysWhichStepsWereSkipped) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  progress.Show(Start(1000));
  progress.Show(Step(1));
  out.str("");
  v1::Event skipped = Step(2);
  skipped.mutable_step()->set_grad_norm(std::numeric_limits<double>::infinity());
  progress.Show(skipped);
  progress.Show(Step(3));
  EXPECT_EQ(out.str(), "step 2: skipped, its fp16 gradient overflowed; the loss scale is halved\n");
}

TEST(Progress, TellsEvaluationsAndCheckpoints) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  v1::Event event;
  event.mutable_evaluate()->set_step(10);
  event.mutable_evaluate()->set_loss(1.25);
  progress.Show(event);
  event.mutable_checkpoint()->set_step(10);
  event.mutable_checkpoint()->set_bytes(3 << 20);
  event.mutable_checkpoint()->set_write_seconds(0.25);
  event.mutable_checkpoint()->set_path("c/step-00000010");
  progress.Show(event);
  EXPECT_EQ(out.str(), "step 10: validation loss 1.2500\nstep 10: checkpoint c/step-00000010, 3.0 MiB in 0.2s\n");
}

TEST(Progress, TellsWhatIsLeftOutAfterADivergence) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  v1::Event event;
  event.mutable_rollback()->set_step(25);
  event.mutable_rollback()->set_cause("loss nan");
  event.mutable_rollback()->set_resumed_step(20);
  event.mutable_rollback()->set_skipped_samples(40);
  progress.Show(event);
  EXPECT_EQ(out.str(), "step 25 had diverged (loss nan): back at step 20, leaving out 40 samples\n");
}

TEST(Progress, TellsWhereARecoveryGoesOnFrom) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  v1::Event event;
  v1::RecoveryEvent& recovery = *event.mutable_recovery();
  recovery.set_resumed_step(40);
  recovery.set_lost_steps(21);
  recovery.set_seconds(1.5);
  progress.Show(event);
  recovery.set_resumed_step(60);
  recovery.set_lost_steps(1);
  recovery.set_from_memory(true);
  progress.Show(event);
  EXPECT_EQ(out.str(),
            "recovered in 1.5 s: going on from step 40, with 21 steps to do again\n"
            "recovered in 1.5 s: going on from step 60, a snapshot in memory, with 1 step to do again\n");
}

// The first failed save in a row is always shown, later ones only as often as they can be read.
TEST(Progress, TellsFailedSavesWithoutAFlood) {
  std::ostringstream out;
  FakeClock clock;
  Progress progress(out, clock, Terminal());
  const auto fail = [&](int64_t step, int64_t in_a_row) {
    v1::Event event;
    event.mutable_save_failed()->set_step(step);
    event.mutable_save_failed()->set_message("disk full");
    event.mutable_save_failed()->set_in_a_row(in_a_row);
    progress.Show(event);
    return std::exchange(out, std::ostringstream()).str();
  };
  clock.Advance(100);
  EXPECT_EQ(fail(10, 1), "step 10: no checkpoint: disk full\n");
  clock.Advance(1);
  EXPECT_EQ(fail(20, 2), "");
  clock.Advance(5);
  EXPECT_EQ(fail(30, 3), "step 30: no checkpoint: disk full; 3 saves in a row have failed\n");
  EXPECT_EQ(fail(50, 1), "step 50: no checkpoint: disk full\n") << "the first after a commit is always told";
}

}  // namespace
}  // namespace zerofleet::cli
