// How the tensors of a model are cut into the parts that the ranks of a tensor group have (Shoeybi et al. 2019).
//
// A matrix is cut by its rows (its outputs: column parallel, in the papers' notation of transposed weights) or by its
// columns (its inputs: row parallel); a vector is cut as a matrix of one column. Rows may consist of sections that are
// each cut separately: queries, keys and values, stacked in one matrix, are cut by heads. All parts of a tensor have
// one shape: where the rows do not divide (a vocabulary), the last parts end with rows of padding, which are zero and
// have no place in the whole model's flat space.
#ifndef ZEROFLEET_WORKER_MODEL_PART_H_
#define ZEROFLEET_WORKER_MODEL_PART_H_

#include <cstdint>
#include <vector>

namespace zerofleet::model {

// The part of a model that one rank of a tensor group has; the whole model where there is one part.
struct ModelPart {
  int index = 0, count = 1;
  bool operator==(const ModelPart&) const = default;
};

// How the ranks of a tensor group share a model.
struct Sharing {
  int parts = 1;  // equal parts (spec.h)
  // Sequence parallelism (Korthikanti et al. 2022): a rank has 1/parts of a micro-batch's tokens of the residual stream
  // and of the norms' outputs. Without effect on a whole model.
  bool sequence = false;
};

struct Cut {
  enum class Along : uint8_t {
    kNothing,  // every part has the whole tensor, with the same values
    kRows,
    kColumns,
  };
  Along along = Along::kNothing;
  int64_t sections = 1;  // equally long sections of the rows

  // Whether elements of this part count where each element of the model is to be counted once.
  bool CountsIn(const ModelPart& part) const { return along != Along::kNothing || part.index == 0; }
};

int64_t ElementsOf(const std::vector<int64_t>& shape);

// The shape of a part's share of a tensor of shape `whole`.
std::vector<int64_t> ShapeOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part);

// A part's rows of a section: their number with padding and without, and the first one's number in the section.
struct SectionRows {
  int64_t all, real, first;
};
SectionRows RowsOfPart(int64_t rows_of_section, const ModelPart& part);

// `elements` elements from `begin` of a part's tensor are those from `whole_begin` of the whole tensor.
struct WholeRun {
  int64_t begin, whole_begin, elements;
};
// The runs of elements [begin, end) of a part's tensor, without padding, ascending; as few runs as possible.
std::vector<WholeRun> RunsOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part,
                                 int64_t begin, int64_t end);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PART_H_
