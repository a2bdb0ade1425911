// The events of a run so far, and the table that summarises it at its end.
#ifndef ZEROFLEET_CLI_REPORT_RUN_RECORD_H_
#define ZEROFLEET_CLI_REPORT_RUN_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/report/terminal.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::cli {

struct RunRecord {
  std::optional<v1::StartEvent> start;
  std::optional<v1::StepEvent> first_step, last_step;
  std::optional<v1::EvaluateEvent> last_evaluation;
  std::optional<v1::CheckpointEvent> last_checkpoint;
  std::optional<v1::FailureEvent> failure;
  std::optional<v1::EndEvent> end;
  int recoveries = 0;
  int64_t lost_steps = 0;
  // Over all steps but the first, which warms up caches; steps done again are counted again.
  int64_t tokens = 0;
  double seconds = 0, mfu_seconds = 0;

  void Add(const v1::Event& event);

  // "; the last committed checkpoint is step 50, checkpoints/step-00000050", or that there is none.
  std::string CheckpointText() const;
};

// Loss, speed, memory per rank, collectives: aligned text, for a run that has ended.
std::string SummaryText(const RunRecord& record, const Terminal& terminal = {});

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_RUN_RECORD_H_
