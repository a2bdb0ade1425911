// The ranks that a run has lost: for the restart budget, and for the message with which a run that has used it up ends.
#ifndef ZEROFLEET_COORDINATOR_LOSSES_H_
#define ZEROFLEET_COORDINATOR_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace zerofleet::coordinator {

inline constexpr int kSpare = -2;

struct RankLoss {
  int rank;         // -1: a worker that had no rank yet; kSpare: a spare
  int64_t step;     // steps completed by then; -1: the rank was not training
  int64_t reached;  // the newest step that the run had reported by then
  std::string text;
};

class Losses {
 public:
  void Add(RankLoss loss);
  size_t size() const { return losses_.size(); }
  const RankLoss& operator[](size_t at) const { return losses_[at]; }  // in order of their loss

  // How often this rank was lost since the run had reached `step`, in training or not. Since and At take time in
  // proportion to that rank's losses only.
  int64_t Since(int rank, int64_t step) const;
  // How often this rank was lost at exactly `step`.
  int64_t At(int rank, int64_t step) const;
  // "3 losses: " and the texts of the newest, oldest first.
  std::string Text() const;

 private:
  std::vector<RankLoss> losses_;
  struct Steps {
    int64_t step, reached;
  };
  std::unordered_map<int, std::vector<Steps>> steps_;  // by rank: those of its losses
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_LOSSES_H_
