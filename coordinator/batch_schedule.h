// How many sequences a step has: batch.global_sequences, and from given steps on what batch.schedule says.
//
// Where a step begins in the data is the sum of what the steps before it took, so that a change of the batch leaves no
// sample out and takes none twice.
#ifndef ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_
#define ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "zerofleet/v1/learning.pb.h"

namespace zerofleet::coordinator {

// What is wrong with batch.schedule, for one line; empty if nothing is. The others take a batch without errors.
std::string ScheduleError(const v1::BatchConfig& batch);

// What a step, counted from 1, takes.
int64_t SequencesOf(const v1::BatchConfig& batch, int64_t step);
// What the steps after `after` up to `step`, which is not before it, take together.
int64_t SequencesBetween(const v1::BatchConfig& batch, int64_t after, int64_t step);
// What the first `steps` take together, where that may be more than can be counted.
double SequencesInAll(const v1::BatchConfig& batch, double steps);
// The number of steps that take so many: a whole one only by chance.
double StepsTaking(const v1::BatchConfig& batch, double sequences);

// What the smallest and the largest step there may be take.
int64_t LeastSequences(const v1::BatchConfig& batch);
int64_t MostSequences(const v1::BatchConfig& batch);

// "16", "8 to 32"
std::string BatchText(const v1::BatchConfig& batch);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_BATCH_SCHEDULE_H_
