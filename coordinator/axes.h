// The axes along which the ranks of a view are numbered, and the groups of ranks along each.
//
// A rank is a number in mixed radix: consecutive ranks follow each other along the first axis, and each axis has a
// digit from 0 to its degree - 1. Ranks that differ along one axis only form a group, which has the axis's name.
// Another kind of parallelism is another axis in AxesOf: no message, view or mesh gets a field for it.
#ifndef ZEROFLEET_COORDINATOR_AXES_H_
#define ZEROFLEET_COORDINATOR_AXES_H_

#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

// The groups' names, in collectives, schedules, reports and metrics.
inline constexpr char kDataGroup[] = "data";      // ranks that train the same parameters on different samples
inline constexpr char kTensorGroup[] = "tensor";  // ranks that share the layers of one model

struct Axis {
  std::string name;
  int degree = 1;  // ranks along it; at least 1
  bool operator==(const Axis&) const = default;
};

class Axes {
 public:
  // `list` has no name twice.
  explicit Axes(std::vector<Axis> list);

  const std::vector<Axis>& list() const { return list_; }
  int world_size() const { return world_size_; }

  // `axis` must be in the list.
  int Degree(std::string_view axis) const;
  // The rank's number along the axis, which is its number in its group.
  int At(int rank, std::string_view axis) const;
  // The ranks of the group that `rank` is in, in order.
  std::vector<int> GroupOf(int rank, std::string_view axis) const;
  // The number of that group among its axis's groups; 0 for an axis that is not in the list.
  int GroupNumber(int rank, std::string_view axis) const;

  // "data 3, tensor 0": the rank's number along each axis, the slowest first.
  std::string Text(int rank) const;

  bool operator==(const Axes&) const = default;

 private:
  // How many ranks apart neighbours along an axis are, and its degree; degree 0 for an axis that is not in the list.
  struct Stride {
    int ranks, degree;
  };
  Stride StrideOf(std::string_view axis) const;

  std::vector<Axis> list_;
  int world_size_ = 1;
};

// The axes of a run. Its world size must be a multiple of every degree that the configuration gives; the quotient is
// the degree of data parallelism.
Axes AxesOf(const v1::ParallelConfig& parallel, int world_size);
// The axes of a run with tensor groups of `tensor` ranks.
Axes AxesOf(int tensor, int world_size);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_AXES_H_
