// The layers' constructors, asked; see declared_units.h.
#include "worker/model/declared_units.h"

#include "worker/model/block.h"
#include "worker/model/layers/embedding.h"
#include "worker/model/layers/head.h"

namespace zerofleet::model {

DeclaredUnits DeclareUnits(const FamilyRows& rows, const Sizes& sizes, const Sharing& sharing) {
  Declaration embedding(sizes, sharing), head(sizes, sharing);
  EmbeddingLayer(rows.embedding, !rows.head.Tied(sizes), embedding);
  HeadLayer(rows.head, rows.Epsilon(sizes), head);
  return {std::move(embedding), Block(rows, sizes, sharing).declared(), std::move(head)};
}

double DeclaredUnits::FlopsPerToken(int64_t parameters) const {
  int64_t in_products = parameters;
  for (const DeclaredTensor& tensor : embedding.tensors()) {
    if (tensor.only_looked_up) in_products -= ElementsOf(tensor.shape);
  }
  const Sizes& sizes = block.sizes();
  return 6.0 * static_cast<double>(in_products) +
         12.0 * static_cast<double>(sizes.layers * block.attention_width()) * static_cast<double>(sizes.context);
}

double DeclaredUnits::PointwiseElementsPerToken() const {
  return static_cast<double>(block.sizes().layers) * static_cast<double>(block.pointwise_elements());
}

}  // namespace zerofleet::model
