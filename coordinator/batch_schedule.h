// How many sequences a step takes: batch.global_sequences, or from given steps on what batch.schedule says.
//
// Where a step begins in the data is the sum of what the steps before it took, so that a change of the batch leaves no
// sample out and takes none twice.
#ifndef ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_
#define ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "zerofleet/v1/learning.pb.h"

namespace zerofleet::coordinator {

// What is wrong with batch.schedule, for one line; empty if nothing is. The other functions require a batch without
// errors.
std::string ScheduleError(const v1::BatchConfig& batch);

// The sequences of `step`, which is 1-based.
int64_t SequencesOf(const v1::BatchConfig& batch, int64_t step);
// The sequences of the steps after `after`, up to and including `step`; `step` >= `after`.
int64_t SequencesBetween(const v1::BatchConfig& batch, int64_t after, int64_t step);
// The sequences of the first `steps` steps, as a double, since they may not fit into an integer.
double SequencesInAll(const v1::BatchConfig& batch, double steps);
// How many steps take `sequences`; seldom a whole number.
double StepsTaking(const v1::BatchConfig& batch, double sequences);

// The sequences of the smallest and of the largest step that there may be.
int64_t LeastSequences(const v1::BatchConfig& batch);
int64_t MostSequences(const v1::BatchConfig& batch);

// "16", "8 to 32"
std::string BatchText(const v1::BatchConfig& batch);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_
