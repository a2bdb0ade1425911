// How the tensors of a model are cut into the parts that the ranks of a tensor group have (Shoeybi et al. 2019).
//
// A matrix is cut by its rows (what it puts out: column parallel, in the papers' notation of transposed weights) or by
// its columns (what it takes in: row parallel); a vector as a matrix of one column. Rows may be sections that are cut
// each on its own: queries, keys and values, stacked in one matrix, by heads. All parts of a tensor have one shape:
// where the rows do not divide (a vocabulary), the last parts end with rows of padding, which are zero and in no
// checkpoint of another number of parts.
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
  int parts = 1;  // equal ones (spec.h)
  // Sequence parallelism (Korthikanti et al. 2022): of the residual stream, and of what the norms make of it, a rank
  // has 1/parts of a micro-batch's tokens. Without effect on a whole model.
  bool sequence = false;
};

struct Cut {
  enum class Along : uint8_t {
    kNothing,  // every part has the whole tensor, with the same values
    kRows,
    kColumns,
  };
  Along along = Along::kNothing;
  int64_t sections = 1;  // of the rows, equally long

  // Whether an element in this part counts where each is to count once.
  bool CountsIn(const ModelPart& part) const { return along != Along::kNothing || part.index == 0; }
};

int64_t ElementsOf(const std::vector<int64_t>& shape);

// What each part has of a tensor of this shape.
std::vector<int64_t> ShapeOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part);

// A tensor shard's rows of a section: padded and unpadded counts; they start at `first` of the section.
struct SectionRows {
  int64_t all, real, first;
};
SectionRows RowsOfPart(int64_t rows_of_section, const ModelPart& part);

// `elements` from element `begin` of a part's tensor are those from `whole_begin` of the whole tensor.
struct WholeRun {
  int64_t begin, whole_begin, elements;
};
// Elements [begin, end) of a part's tensor, without padding, ascending; as few runs as there can be.
std::vector<WholeRun> RunsOfPart(const std::vector<int64_t>& whole, const Cut& cut, const ModelPart& part,
                                 int64_t begin, int64_t end);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_PART_H_
