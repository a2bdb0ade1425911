// Ranks in mixed radix; see axes.h.
#include "coordinator/axes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet::coordinator {

Axes::Axes(std::vector<Axis> list) : list_(std::move(list)) {
  for (const Axis& axis : list_) {
    ZF_CHECK(axis.degree >= 1);
    world_size_ *= axis.degree;
  }
}

Axes::Stride Axes::StrideOf(std::string_view axis) const {
  int ranks = 1;
  for (const Axis& each : list_) {
    if (each.name == axis) return {ranks, each.degree};
    ranks *= each.degree;
  }
  return {ranks, 0};
}

int Axes::Degree(std::string_view axis) const {
  const int degree = StrideOf(axis).degree;
  ZF_CHECK(degree >= 1);
  return degree;
}

int Axes::At(int rank, std::string_view axis) const {
  const Stride stride = StrideOf(axis);
  ZF_CHECK(stride.degree >= 1);
  return rank / stride.ranks % stride.degree;
}

std::vector<int> Axes::GroupOf(int rank, std::string_view axis) const {
  const Stride stride = StrideOf(axis);
  const int first = rank - At(rank, axis) * stride.ranks;
  std::vector<int> group;
  for (int number = 0; number < stride.degree; ++number) group.push_back(first + number * stride.ranks);
  return group;
}

int Axes::GroupNumber(int rank, std::string_view axis) const {
  const Stride stride = StrideOf(axis);
  if (stride.degree == 0) return 0;
  return rank / (stride.ranks * stride.degree) * stride.ranks + rank % stride.ranks;
}

std::string Axes::Text(int rank) const {
  std::string text;
  for (auto axis = list_.rbegin(); axis != list_.rend(); ++axis) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", axis->name, " ", At(rank, axis->name));
  }
  return text;
}

Axes AxesOf(const v1::ParallelConfig& parallel, int world_size) {
  return AxesOf(static_cast<int>(parallel.tensor()), world_size);
}

Axes AxesOf(int tensor, int world_size) {
  ZF_CHECK(tensor >= 1);
  ZF_CHECK(world_size % tensor == 0);
  return Axes({{kTensorGroup, tensor}, {kDataGroup, world_size / tensor}});
}

}  // namespace zerofleet::coordinator
