// What the three kinds of units of a transformer declare, known from its rows and sizes alone.
#ifndef ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_
#define ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_

#include "worker/model/declaration.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

struct DeclaredUnits {
  Declaration embedding, block, head;

  // Model FLOPs of training on one token, forward and backward: 6 for each of `parameters` that a product takes, + 12 *
  // layers * width of the queries * context: the causal half is not discounted.
  double FlopsPerToken(int64_t parameters) const;
  // Elements that a token's pass through all blocks reads and writes outside the products, forward and backward.
  double PointwiseElementsPerToken() const;
};

// Declares the units of a tensor shard of a model of these rows.
DeclaredUnits DeclareUnits(const FamilyRows& rows, const Sizes& sizes, const Sharing& sharing = {});

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_DECLARED_UNITS_H_
