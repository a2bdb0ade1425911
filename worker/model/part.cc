// Every cut as stripes of equal length; see part.h.
#include "worker/model/part.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace zerofleet::model {
namespace {

// The whole consists of pieces of `stride` elements; of each a part has the `length` elements from `first` on, as far
// as the piece reaches. If rows are cut, a piece is a section; if columns, a row.
struct Stripes {
  int64_t stride, length, first;
};

Stripes StripesOf(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part) {
  const int64_t elements = ElementsOf(whole);
  if (cut.along == Cut::Along::kNothing) return {elements, elements, 0};
  if (cut.along == Cut::Along::kColumns) {
    ZF_CHECK(whole.size() == 2);
    ZF_CHECK(whole[1] % part.count == 0);
    const int64_t length = whole[1] / part.count;
    return {whole[1], length, part.index * length};
  }
  ZF_CHECK(whole[0] % cut.sections == 0);
  const int64_t width = elements / whole[0];
  const SectionRows rows = RowsOfPart(whole[0] / cut.sections, part);
  return {elements / cut.sections, rows.all * width, rows.first * width};
}

}  // namespace

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t side : shape) elements *= side;
  return elements;
}

std::vector<int64_t> ShapeOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part) {
  std::vector<int64_t> shape = whole;
  if (cut.along == Cut::Along::kRows) shape[0] = cut.sections * RowsOfPart(whole[0] / cut.sections, part).all;
  if (cut.along == Cut::Along::kColumns) shape[1] = StripesOf(whole, cut, part).length;
  return shape;
}

SectionRows RowsOfPart(int64_t rows_of_section, const ModelPart& part) {
  const int64_t all = CeilDivide(rows_of_section, part.count), first = part.index * all;
  return {all, std::clamp<int64_t>(rows_of_section - first, 0, all), first};
}

std::vector<WholeRun> RunsOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part,
                                 int64_t begin, int64_t end) {
  const Stripes stripes = StripesOf(whole, cut, part);
  const int64_t real = std::clamp<int64_t>(stripes.stride - stripes.first, 0, stripes.length);
  std::vector<WholeRun> runs;
  for (int64_t stripe = begin / stripes.length; stripe * stripes.length < end; ++stripe) {
    const int64_t at = stripe * stripes.length;
    const int64_t from = std::max(begin, at), to = std::min(end, at + real);
    if (from >= to) continue;
    const int64_t whole_begin = stripe * stripes.stride + stripes.first + (from - at);
    const bool follows = !runs.empty() && runs.back().begin + runs.back().elements == from &&
                         runs.back().whole_begin + runs.back().elements == whole_begin;
    if (follows) runs.back().elements += to - from;
    if (!follows) runs.push_back({from, whole_begin, to - from});
  }
  return runs;
}

}  // namespace zerofleet::model
