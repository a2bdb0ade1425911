// One text for a step, drawn in place or line by line; see progress.h.
#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"

namespace zerofleet {
namespace {

constexpr double kLineSeconds = 2;      // between two plain lines
constexpr double kRedrawSeconds = 0.1;  // between two drawings of the bar
constexpr int64_t kShortRun = 20;       // steps; so few are all shown
constexpr int kBarCells = 24;
constexpr char kClearLine[] = "\r\x1b[K";

// The run's own steps weigh in with a tenth each, so that the time left follows a change within tens of steps.
constexpr double kNewestWeight = 0.1;

}  // namespace

Progress::Progress(std::ostream& out, const Clock& clock, bool live)
    : out_(out), clock_(clock), live_(live), started_(clock.MonotonicSeconds()) {}

void Progress::Show(const v1::Event& event) {
  switch (event.body_case()) {
    case v1::Event::kStart:
      return ShowStart(event.start());
    case v1::Event::kStep:
      return ShowStep(event.step());
    case v1::Event::kEvaluate:
      return Note(absl::StrFormat("step %d: validation loss %.4f", event.evaluate().step(), event.evaluate().loss()));
    case v1::Event::kCheckpoint:
      return Note(absl::StrCat("step ", event.checkpoint().step(), ": checkpoint ", event.checkpoint().path(), ", ",
                               HumanBytes(event.checkpoint().bytes()), " in ",
                               HumanSeconds(event.checkpoint().write_seconds())));
    case v1::Event::kRecovery:
      return Note(absl::StrCat("recovered from ", event.recovery().cause(), " at step ",
                               event.recovery().resumed_step(), ", ", event.recovery().lost_steps(), " steps lost"));
    case v1::Event::kNotice:
      return Note(event.notice().message());
    case v1::Event::kEnd:
    case v1::Event::kFailure:
    case v1::Event::BODY_NOT_SET:
      return;
  }
}

void Progress::ShowStart(const v1::StartEvent& start) {
  steps_ = start.config().steps();
  first_step_ = start.has_resumed_from() ? start.resumed_from() : 0;
  started_ = clock_.MonotonicSeconds();
  const std::string resumed =
      start.has_resumed_from() ? absl::StrCat(", resumed from step ", start.resumed_from()) : "";
  Note(absl::StrCat(HumanCount(static_cast<double>(start.parameters())), " parameters, ", start.world_size(),
                    start.world_size() == 1 ? " worker" : " workers", " on ", start.device(), ", ZeRO stage ",
                    start.config().parallel().zero_stage(), ", ", start.config().precision(), resumed));
}

void Progress::ShowStep(const v1::StepEvent& step) {
  if (!std::isfinite(step.grad_norm())) {
    Note(absl::StrCat("step ", step.step(), ": skipped, its fp16 gradient overflowed; the loss scale is halved"));
  }
  step_seconds_ =
      step_seconds_ == 0 ? step.seconds() : step_seconds_ + kNewestWeight * (step.seconds() - step_seconds_);
  const double now = clock_.MonotonicSeconds();
  const bool edge = step.step() == first_step_ + 1 || step.step() == steps_;
  const bool due =
      now - shown_ >= (live_ ? kRedrawSeconds : kLineSeconds) || (!live_ && steps_ - first_step_ <= kShortRun);
  const double done = steps_ > 0 ? static_cast<double>(step.step()) / static_cast<double>(steps_) : 0;
  if (!edge && !due) return;
  shown_ = now;
  if (!live_) {
    out_ << StepText(step) << std::endl;
    return;
  }
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kBarCells);
  line_ = absl::StrCat("[", std::string(filled, '='), std::string(kBarCells - filled, ' '), "] ", StepText(step));
  Redraw();
}

std::string Progress::StepText(const v1::StepEvent& step) const {
  const double left = static_cast<double>(std::max<int64_t>(0, steps_ - step.step())) * step_seconds_;
  return absl::StrFormat("step %d/%d  loss %.4f  %s tok/s  MFU %.1f%%  ETA %s  elapsed %s", step.step(), steps_,
                         step.loss(), HumanCount(step.tokens_per_second()), 100 * step.mfu(), HumanSeconds(left),
                         HumanSeconds(clock_.MonotonicSeconds() - started_));
}

void Progress::Redraw() {
  out_ << kClearLine << line_ << std::flush;
  line_drawn_ = true;
}

void Progress::Note(const std::string& line) {
  if (line_drawn_) out_ << kClearLine;
  out_ << line << "\n";
  if (line_drawn_) Redraw();
  out_ << std::flush;
}

void Progress::Close() {
  if (line_drawn_) out_ << std::endl;
  line_drawn_ = false;
}

}  // namespace zerofleet
