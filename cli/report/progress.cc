// One text for a step, drawn in place or line by line; see progress.h.
#include "cli/report/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/report/run_record.h"

namespace zerofleet::cli {
namespace {

constexpr double kLineSeconds = 2;        // between two plain lines
constexpr double kFailedSaveSeconds = 5;  // between two saves that fail in a row
constexpr double kRedrawSeconds = 0.1;    // between two drawings of the bar
constexpr int64_t kShortRun = 20;         // steps; all steps of such a run are shown
constexpr int kLeastCells = 6, kMostCells = 24;
constexpr int kBarFrame = 3;  // "[", "] "
constexpr char kClearLine[] = "\r\x1b[K";
constexpr char kErrorLineBegin[] = "zerofleet: ";

// Each new step has a weight of a tenth, so that the time left follows a change within tens of steps.
constexpr double kNewestWeight = 0.1;

}  // namespace

Progress::Progress(std::ostream& out, const Clock& clock, Terminal terminal)
    : out_(out), clock_(clock), terminal_(terminal), started_(clock.MonotonicSeconds()) {}

void Progress::Show(const v1::Event& event) {
  switch (event.body_case()) {
    case v1::Event::kStart: return ShowStart(event.start());
    case v1::Event::kStep: return ShowStep(event.step());
    case v1::Event::kEvaluate:
      return Note(absl::StrFormat("step %d: validation loss %s", event.evaluate().step(), LossText(event.evaluate())));
    case v1::Event::kCheckpoint:
      return Note(absl::StrCat("step ", event.checkpoint().step(), ": checkpoint ", event.checkpoint().path(), ", ",
                               HumanBytes(event.checkpoint().bytes()), " in ",
                               HumanSeconds(event.checkpoint().write_seconds())));
    case v1::Event::kSaveFailed: return ShowFailedSave(event.save_failed());
    case v1::Event::kRecovery:
      return Note(absl::StrFormat(
          "recovered in %.1f s: going on from step %d, %swith %d %s to do again", event.recovery().seconds(),
          event.recovery().resumed_step(), event.recovery().from_memory() ? "a snapshot in memory, " : "",
          event.recovery().lost_steps(), event.recovery().lost_steps() == 1 ? "step" : "steps"));
    case v1::Event::kRollback:
      return Note(absl::StrFormat("step %d had diverged (%s): back at step %d, leaving out %d samples",
                                  event.rollback().step(), event.rollback().cause(), event.rollback().resumed_step(),
                                  event.rollback().skipped_samples()));
    case v1::Event::kNotice: return Note(event.notice().message());
    case v1::Event::kEnd:
    case v1::Event::kFailure:
    case v1::Event::kHistogram:
    case v1::Event::kLost:
    case v1::Event::BODY_NOT_SET: return;
  }
}

// Shows a failed save, unless it follows another one too closely to be read.
void Progress::ShowFailedSave(const v1::SaveFailedEvent& failed) {
  const double now = clock_.MonotonicSeconds();
  if (failed.in_a_row() > 1 && now - failed_save_shown_ < kFailedSaveSeconds) return;
  failed_save_shown_ = now;
  const std::string again =
      failed.in_a_row() > 1 ? absl::StrCat("; ", failed.in_a_row(), " saves in a row have failed") : "";
  Note(absl::StrCat("step ", failed.step(), ": no checkpoint: ", failed.message(), again));
}

void Progress::ShowStart(const v1::StartEvent& start) {
  steps_ = start.config().steps();
  first_step_ = start.has_resumed_from() ? start.resumed_from() : 0;
  started_ = clock_.MonotonicSeconds();
  const std::string resumed = start.has_resumed_from() ? absl::StrCat(", resumed from step ", start.resumed_from())
                              : start.config().init_from().empty()
                                  ? ""
                                  : absl::StrCat(", weights from ", start.config().init_from());
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
  const bool live = terminal_.live();
  const bool edge = step.step() == first_step_ + 1 || step.step() == steps_;
  const bool due =
      now - shown_ >= (live ? kRedrawSeconds : kLineSeconds) || (!live && steps_ - first_step_ <= kShortRun);
  if (!edge && !due) return;
  shown_ = now;
  if (!live) {
    out_ << StepText(step, terminal_.columns()) << std::endl;
    return;
  }
  step_ = step;
  Redraw();
}

std::string Progress::StepText(const v1::StepEvent& step, int columns) const {
  struct Figure {
    std::string text;
    int rank;  // 0 is the most important
  };
  const double left = static_cast<double>(std::max<int64_t>(0, steps_ - step.step())) * step_seconds_;
  const std::vector<Figure> figures = {
      {absl::StrCat("step ", step.step(), "/", steps_), 0},
      {absl::StrFormat("loss %.4f", step.loss()), 1},
      {absl::StrCat(HumanCount(step.tokens_per_second()), " tok/s"), 3},
      {absl::StrFormat("MFU %.1f%%", 100 * step.mfu()), 4},
      {absl::StrCat("ETA ", HumanSeconds(left)), 2},
      {absl::StrCat("elapsed ", HumanSeconds(clock_.MonotonicSeconds() - started_)), 5},
  };
  std::vector<bool> kept(figures.size());
  int width = 0;
  for (int rank = 0; rank < static_cast<int>(figures.size()); ++rank) {
    const auto figure = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.rank == rank; });
    const int added = DisplayWidth(figure->text) + (rank == 0 ? 0 : 2);
    if (columns > 0 && rank > 0 && width + added > columns) break;
    width += added;
    kept[figure - figures.begin()] = true;
  }
  std::string text;
  for (size_t i = 0; i < figures.size(); ++i) {
    if (kept[i]) absl::StrAppend(&text, text.empty() ? "" : "  ", figures[i].text);
  }
  return text;
}

std::string Progress::BarText() const {
  // The last column stays free: writing to it makes some terminals begin a new line.
  const int columns = terminal_.columns() == 0 ? 0 : terminal_.columns() - 1;
  const std::string figures = StepText(step_, columns == 0 ? 0 : columns - kBarFrame - kLeastCells);
  const int room = columns == 0 ? kMostCells : columns - kBarFrame - DisplayWidth(figures);
  const int cells = std::clamp(room, kLeastCells, kMostCells);
  const double done = steps_ > 0 ? static_cast<double>(step_.step()) / static_cast<double>(steps_) : 0;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * cells);
  return absl::StrCat("[", terminal_.Paint(Style::kGood, std::string(filled, '=')), std::string(cells - filled, ' '),
                      "] ", figures);
}

void Progress::Redraw() {
  out_ << kClearLine << BarText() << std::flush;
  line_drawn_ = true;
}

void Progress::Note(const std::string& line) {
  if (line_drawn_) out_ << kClearLine;
  const bool is_error = line.rfind(kErrorLineBegin, 0) == 0;
  out_ << WrapText(line, is_error ? 0 : terminal_.columns(), /*indent=*/2) << "\n";
  if (line_drawn_) Redraw();
  out_ << std::flush;
}

void Progress::Close() {
  if (line_drawn_) out_ << std::endl;
  line_drawn_ = false;
}

}  // namespace zerofleet::cli
