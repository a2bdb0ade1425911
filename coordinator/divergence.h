// Steps whose loss or gradient is not finite, or whose loss is a spike, with `on_divergence: rollback`: the fleet goes
// back to the last commit, as after losing a rank, and leaves out the samples from there to the end of the diverged
// step (Chowdhery et al. 2022, PaLM, §5.1). No rank is lost.
//
// Every rank comes to the same verdict from the same loss, before the step counts anywhere. The samples to leave out
// are known once all ranks have loaded. They are made durable before anybody is told, every later Start of the run
// carries them, and from the next commit on the data cursor has passed them.
#ifndef ZEROFLEET_COORDINATOR_DIVERGENCE_H_
#define ZEROFLEET_COORDINATOR_DIVERGENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank reports that a step has diverged. False, and nothing is done, if the failure is no divergence or the run does
// not go back.
bool OnDivergence(Fleet& fleet, const v1::Failure& failure, double now);

// Call once for each divergence, before the run goes back or ends.
void CountDivergence(Fleet& fleet, const v1::Divergence& divergence);

// Ends the view, or the run if it has gone back divergence.max_rollbacks times without a commit beyond the steps that
// diverged: nothing suggests then that other data will help.
void GoBack(Fleet& fleet, const v1::Divergence& divergence, double now);

// Every rank has loaded `step`: if the fleet has gone back, decides which samples are left out. False if the run has
// failed.
bool SettleRollback(Fleet& fleet, int64_t step);

// The rollback that leaves out samples on which a state that has consumed `samples_consumed` was trained; null if there
// is none. Such a state belongs to a course that was given up, and the run must not continue from it.
const Rollback* LeftOutSince(const std::vector<Rollback>& rollbacks, int64_t samples_consumed);

// The Start for ranks of a view that continues from fleet.training.start_step; and the reverse, taking over the Start
// that the ranks of an adopted view were given.
v1::Start StartOf(const Fleet& fleet);
void TakeStart(Fleet& fleet, const v1::Start& start);

// Keeps the loss of a step that counts, to judge spikes by.
void NoteLoss(Fleet& fleet, const v1::StepEvent& step);

// The last rollback and how much it leaves out, for the operator; empty if there was none.
std::string RollbackText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_DIVERGENCE_H_
