// What the three kinds of units of a transformer declare, derived from its rows and sizes alone.
#ifndef ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_
#define ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_

#include "worker/model/declaration.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

struct DeclaredUnits {
  Declaration embedding, block, head;

  // Model FLOPs of training on one token, forward and backward: 6 for each of the `parameters` that products use, plus
  // 12 * layers * width of the queries * context. The causal half is not discounted.
  double FlopsPerToken(int64_t parameters) const;
  // Elements that the passes of one token through all blocks, forward and backward, read and write outside the
  // products.
  double PointwiseElementsPerToken() const;
};

// Declares the units of a model of these rows, as one rank of a tensor group has them.
DeclaredUnits DeclareUnits(const FamilyRows& rows, const Sizes& sizes, const Sharing& sharing = {});

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_
