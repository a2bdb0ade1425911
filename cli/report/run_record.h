// The events of a run so far, and the table that summarises it at its end.
#ifndef ZEROFLEET_CLI_REPORT_RUN_RECORD_H_
#define ZEROFLEET_CLI_REPORT_RUN_RECORD_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/report/terminal.h"
#include "worker/memory/arena.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

struct RunRecord {
  std::optional<v1::StartEvent> start;
  std::optional<v1::StepEvent> first_step, last_step;
  std::optional<v1::EvaluateEvent> last_evaluation;
  std::optional<v1::CheckpointEvent> last_checkpoint;
  std::optional<v1::FailureEvent> failure;
  std::optional<v1::EndEvent> end;
  int64_t evaluated_step = -1, committed_step = -1;  // the newest of each, not after what a recovery went back to
  std::map<std::string, int64_t> histogram_steps;    // the same by "weights/TENSOR" and "gradients/TENSOR"
  uint64_t generation = 0;                           // of the newest event that has one
  int recoveries = 0;
  int64_t lost_steps = 0;
  int failed_saves = 0, rollbacks = 0;
  int64_t skipped_samples = 0;
  // Over all steps but the first, which warms up caches; steps done again are counted again.
  int64_t tokens = 0;
  double seconds = 0, mfu_seconds = 0;

  // False for an event that is known already, since a coordinator that was started again tells some again: nothing else
  // should take note of it.
  bool Add(const v1::Event& event);

  bool IsKnown(const v1::Event& event) const;

  // "; the last committed checkpoint is step 50, checkpoints/step-00000050", or that there is none.
  std::string CheckpointText() const;
};

// What a rank was planned to take, by category, in its arenas, and as a process (0: not known).
struct PlannedMemory {
  std::array<int64_t, memory::kCategories> bytes = {};
  int64_t reserved_bytes = 0, process_bytes = 0;
};

// Loss, speed, memory per rank, beside the plan's if there is one, collectives: aligned text, for a run that has ended.
// "1.2500", and with named sets "1.2500 (wiki 1.1000, code 1.4000)".
std::string LossText(const v1::EvaluateEvent& evaluation);

std::string SummaryText(const RunRecord& record, const Terminal& terminal = {}, const PlannedMemory* planned = nullptr);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_RECORD_H_
