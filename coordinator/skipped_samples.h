// Samples that a run leaves out, and what that makes of its way through the order of global samples.
//
// The order itself is a pure function of the seed (worker/data/sampler.h). A run takes its places one after another and
// passes over those that are skipped, so where a step begins follows from a place at which some step began and from
// what is skipped after it.
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

  // Places [begin, end); nothing if that is empty. Ranges may overlap.
  void Add(int64_t begin, int64_t end);

  // The place of the sample that is taken after `count` others, from `place` on.
  int64_t Place(int64_t place, int64_t count) const;
  // Where the next step begins (DataCursor.samples_consumed) once `count` samples have been taken from `place` on.
  int64_t After(int64_t place, int64_t count) const { return count == 0 ? place : Place(place, count - 1) + 1; }

  // Ascending, and apart from each other.
  Ranges ranges() const;
  bool operator==(const SkippedSamples&) const = default;

 private:
  struct Range {
    int64_t begin, end;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges_;  // as above
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_SKIPPED_SAMPLES_H_
