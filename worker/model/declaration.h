// What the rows of one unit declare, in their order: its tensors, what a block keeps of a forward pass, what its ops
// cost. Everything else that is known of a model beforehand is derived from this.
#ifndef ZEROFLEET_WORKER_MODEL_DECLARATION_H_
#define ZEROFLEET_WORKER_MODEL_DECLARATION_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/model/part.h"
#include "worker/model/sizes.h"

namespace zerofleet::model {

enum class Init : uint8_t {
  kNormal,              // N(0, 0.02)
  kResidualProjection,  // N(0, 0.02 / sqrt(2 * layers)): what writes to the residual stream
  kAdapter,             // N(0, 1 / sqrt(3 * columns)): the deviation of what PEFT draws A from
  kOnes,
  kZeros,
};

struct DeclaredTensor {
  std::string name;
  std::vector<int64_t> shape;  // of the whole
  bool decay;                  // weight decay applies
  Init init;
  Cut cut = {};
  bool projects = false;        // the weight of a block's product
  bool only_looked_up = false;  // no product takes it
  bool unprefixed = false;      // its name begins with no prefix of the model's
};

// What a block's forward leaves to its backward.
struct ActivationRow {
  enum class Tokens : uint8_t { kAll, kOfStream };  // all of a micro-batch, or those a rank has of the residual stream
  int64_t columns;                                  // per token
  Tokens tokens = Tokens::kAll;
  bool statistics = false;  // fp32, where the others are of the compute type
  bool cheap = false;       // to make again for its size: selective checkpointing does not keep it
  int branch = 0;           // whose backward takes it
};

// A product of a part: (n, k) its weight.
struct DeclaredProduct {
  int64_t n, k;
  bool bias;
};

// A size that a tensor group shares, which its ranks must divide, as the configuration names it.
struct SharedSize {
  const char* key;
  int64_t size;
};

class Declaration {
 public:
  Declaration(const Sizes& sizes, const Sharing& sharing) : sizes_(sizes), sharing_(sharing) {}

  const Sizes& sizes() const { return sizes_; }
  int parts() const { return sharing_.parts; }
  // Whether ranks of a tensor group have only some tokens of the residual stream.
  bool divides_stream() const { return sharing_.sequence && sharing_.parts > 1; }

  // --- For the layers' constructors.

  // Its offset in the unit of a part, in elements.
  int64_t Tensor(DeclaredTensor tensor);
  // Its number among the unit's activations.
  int Activation(ActivationRow row);
  // The branch that begins here, from 0. The residual stream before any but the first is kept.
  int BeginBranch();
  // A tensor group cuts this size; the same one may be declared again.
  void Shares(const SharedSize& size);
  void Product(const DeclaredProduct& product) { products_.push_back(product); }
  // The product's name there, without ".weight".
  void Names(const std::string& product) { product_names_.push_back(product); }
  // An adapter's tensor, in the unit of a block's adapters: its offset there, in elements of a part.
  int64_t AdapterTensor(DeclaredTensor tensor);
  // Elements of an adapter whose gradient a tensor group must sum: where it is among all of the block.
  int64_t AdapterSums(int64_t elements) { return std::exchange(adapter_sums_, adapter_sums_ + elements); }
  // Columns of what an adapter makes, takes or puts out.
  void AdapterColumns(int64_t columns) { adapter_columns_ = std::max(adapter_columns_, columns); }
  static constexpr int64_t kMostAdapters = 3;  // of one product
  // A gradient with this number of columns within a branch.
  void Gradient(int64_t columns) { gradient_columns_ = std::max(gradient_columns_, columns); }
  // Elements that a norm's parameters have. If a tensor group must sum their gradient, each rank having it of some
  // tokens or heads: where it is among all that the group sums at the end of the unit.
  int64_t NormSums(int64_t elements, bool summed);
  // Attention's products, of queries of this width with each of the context.
  void Attention(int64_t width) { attention_width_ += width; }
  // Elements that a token's pass reads and writes outside the products, forward and backward.
  void Pointwise(int64_t elements) { pointwise_elements_ += elements; }

  // --- What has been declared.

  const std::vector<DeclaredTensor>& tensors() const { return tensors_; }
  const std::vector<DeclaredTensor>& adapter_tensors() const { return adapter_tensors_; }
  int64_t adapter_sums() const { return adapter_sums_; }
  int64_t adapter_columns() const { return adapter_columns_; }
  const std::vector<std::string>& product_names() const { return product_names_; }
  const std::vector<ActivationRow>& activations() const { return activations_; }
  const std::vector<DeclaredProduct>& products() const { return products_; }
  const std::vector<SharedSize>& shared() const { return shared_; }
  // The activations that are the residual stream before the branches 1, 2, ...
  const std::vector<int>& middles() const { return middles_; }
  int branches() const { return branches_; }
  int64_t gradient_columns() const { return gradient_columns_; }
  int64_t norm_sums() const { return norm_sums_; }
  int64_t attention_width() const { return attention_width_; }
  int64_t pointwise_elements() const { return pointwise_elements_; }
  // Elements of the largest bias of a product, and of the largest norm.
  int64_t LargestBias() const;
  int64_t largest_norm() const { return largest_norm_; }
  // Per token of a forward pass of the whole unit: 2 for each element of a product's weight, and attention's over the
  // whole context.
  double ForwardFlops() const;
  // FLOPs of its last product alone.
  double LastProductFlops() const;

 private:
  const Sizes sizes_;
  const Sharing sharing_;
  std::vector<DeclaredTensor> tensors_, adapter_tensors_;
  std::vector<std::string> product_names_;
  std::vector<ActivationRow> activations_;
  std::vector<DeclaredProduct> products_;
  std::vector<SharedSize> shared_;
  std::vector<int> middles_;
  int branches_ = 0;
  int64_t offset_ = 0, gradient_columns_ = 0, norm_sums_ = 0, largest_norm_ = 0, attention_width_ = 0;
  int64_t pointwise_elements_ = 0;
  int64_t adapter_offset_ = 0, adapter_sums_ = 0, adapter_columns_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_DECLARATION_H_
