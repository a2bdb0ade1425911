// Samples that a run leaves out, and how that changes its path through the order of global samples.
//
// The order itself is a pure function of the seed (worker/data/sampler.h). A run takes the order's places one after
// another and passes over the skipped ones, so where a step begins follows from where an earlier step began and from
// what is skipped after that.
#ifndef ZEROFLEET_COORDINATOR_SKIPPED_SAMPLES_H_
#define ZEROFLEET_COORDINATOR_SKIPPED_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::coordinator {

class SkippedSamples {
 public:
  using Ranges = google::protobuf::RepeatedPtrField<v1::SampleRange>;

  SkippedSamples() = default;
  explicit SkippedSamples(const Ranges& ranges);

  // Adds places [begin, end), which may be empty or overlap earlier ranges.
  void Add(int64_t begin, int64_t end);

  // The place of the sample that is taken after `count` others, starting from `place`.
  int64_t Place(int64_t place, int64_t count) const;
  // Where the next step begins (DataCursor.samples_consumed) once `count` samples have been taken from `place` on.
  int64_t After(int64_t place, int64_t count) const { return count == 0 ? place : Place(place, count - 1) + 1; }

  // The ranges, ascending, with gaps between them.
  Ranges ranges() const;
  bool operator==(const SkippedSamples&) const = default;

 private:
  struct Range {
    int64_t begin, end;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges_;  // ascending, with gaps between them
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SKIPPED_SAMPLES_H_
