// A step whose loss or gradient is not finite, or whose loss is a spike, where on_divergence is rollback: the fleet
// goes back to what is committed, as after a loss, and leaves out the samples from there to the end of that step
// (Chowdhery et al. 2022, PaLM, §5.1). Nobody is lost.
//
// Every rank comes to the same verdict from the same loss, before the step counts anywhere. What is left out is known
// once all ranks have loaded; it is durable before anybody hears of it, told in every Start of the run from then on,
// and from the next commit on part of what the data cursor has passed.
#ifndef ZEROFLEET_COORDINATOR_DIVERGENCE_H_
#define ZEROFLEET_COORDINATOR_DIVERGENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank reports that a step has diverged. False, and nothing is done, if that is none or the run does not go back.
bool OnDivergence(Fleet& fleet, const v1::Failure& failure, double now);

// Call once for each divergence, before the run goes back or ends.
void CountDivergence(Fleet& fleet, const v1::Divergence& divergence);

// Ends the view, or the run if it has gone back divergence.max_rollbacks times without a commit beyond the steps that
// diverged: nothing tells then that other data will help.
void GoBack(Fleet& fleet, const v1::Divergence& divergence, double now);

// Whether a step has diverged and the run has not gone back from it yet.
bool IsGoingBack(const Fleet& fleet);

// Every rank has loaded `step`: settles what is left out if the fleet has gone back. False if the run has failed.
bool SettleRollback(Fleet& fleet, int64_t step);

// The rollback after which the run has left out samples that a state at this place of their order was trained on: it is
// of a course that was given up, and not to be gone on from. Null if there is none.
const Rollback* LeftOutSince(const std::vector<Rollback>& rollbacks, int64_t samples_consumed);

// What the ranks of a view that goes on from fleet.training.start_step are told. The other way: what the ranks of a
// view that is adopted were told.
v1::Start StartOf(const Fleet& fleet);
void TakeStart(Fleet& fleet, const v1::Start& start);

// A step counts.
void NoteLoss(Fleet& fleet, const v1::StepEvent& step);

// For the operator: the last rollback and how much is left out; empty if there was none.
std::string RollbackText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_DIVERGENCE_H_
