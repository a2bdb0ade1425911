// The ranks that a run has lost: for the restart budget, and for the line that a run out of restarts ends with.
#ifndef ZEROFLEET_COORDINATOR_LOSSES_H_
#define ZEROFLEET_COORDINATOR_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace zerofleet::coordinator {

struct RankLoss {
  int rank;      // -1: a spare
  int64_t step;  // completed by then; -1: it was not training
  std::string text;
};

class Losses {
 public:
  void Add(RankLoss loss);
  size_t size() const { return losses_.size(); }
  const RankLoss& operator[](size_t at) const { return losses_[at]; }  // in their order

  // How often this rank was lost at this step or later; one that was not training counts as at step 0. Both look at
  // that rank's alone.
  int64_t Since(int rank, int64_t step) const;
  // How often it was lost at exactly this step.
  int64_t At(int rank, int64_t step) const;
  // "3 losses: " and the newest of them, oldest first.
  std::string Text() const;

 private:
  std::vector<RankLoss> losses_;
  std::unordered_map<int, std::vector<int64_t>> steps_;  // by rank
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LOSSES_H_
