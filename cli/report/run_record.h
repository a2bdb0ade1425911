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
  int64_t evaluated_step = -1, committed_step = -1;  // the newest; a recovery lowers them
  std::map<std::string, int64_t> histogram_steps;    // the newest, by "weights/TENSOR" and "gradients/TENSOR"
  uint64_t generation = 0;                           // that of the newest event that has one
  int recoveries = 0;
  int64_t lost_steps = 0;
  int failed_saves = 0, rollbacks = 0;
  int64_t skipped_samples = 0;
  // Sums over all steps but the first, which warms up caches; steps that are repeated are counted again.
  int64_t tokens = 0;
  double seconds = 0, mfu_seconds = 0;

  // Returns false for an event that is already known, which the caller should ignore: a restarted coordinator repeats
  // some events.
  bool Add(const v1::Event& event);

  bool IsKnown(const v1::Event& event) const;

  // "; the last committed checkpoint is step 50, checkpoints/step-00000050", or that there is none.
  std::string CheckpointText() const;
};

// The memory that a rank was planned to take: by category, in its arenas, and as a process (0: not known).
struct PlannedMemory {
  std::array<int64_t, memory::kCategories> bytes = {};
  int64_t reserved_bytes = 0, process_bytes = 0;
};

// "1.2500", and with named sets "1.2500 (wiki 1.1000, code 1.4000)".
std::string LossText(const v1::EvaluateEvent& evaluation);

// The summary of a run that has ended, as aligned text: loss, speed, memory per rank (beside the plan's if there is
// one), collectives.
std::string SummaryText(const RunRecord& record, const Terminal& terminal = {}, const PlannedMemory* planned = nullptr);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_RECORD_H_
