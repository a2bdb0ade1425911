// What the rows of one unit declare, in their order: its tensors, the activations that a block keeps, the cost of its
// ops. Everything else that is known about a model in advance is derived from this.
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
  kResidualProjection,  // N(0, 0.02 / sqrt(2 * layers)): for products into the residual stream
  kAdapter,             // N(0, 1 / sqrt(3 * columns)): the deviation from which PEFT draws A
  kOnes,
  kZeros,
};

struct DeclaredTensor {
  std::string name;
  std::vector<int64_t> shape;  // in the whole model
  bool decay;                  // weight decay applies
  Init init;
  Cut cut = {};
  bool projects = false;        // the weight of a block's product
  bool only_looked_up = false;  // not an operand of any product
  bool unprefixed = false;      // its name lacks the model's prefix
};

// An activation that a block's forward leaves to its backward.
struct ActivationRow {
  enum class Tokens : uint8_t { kAll, kOfStream };  // all of a micro-batch, or this rank's of the residual stream
  int64_t columns;                                  // per token
  Tokens tokens = Tokens::kAll;
  bool statistics = false;  // fp32; other rows have the compute type
  bool cheap = false;       // cheap to recompute for its size: selective checkpointing does not keep it
  int branch = 0;           // the branch whose backward reads it
};

// A product in one part of the model, with a weight of shape (n, k).
struct DeclaredProduct {
  int64_t n, k;
  bool bias;
};

// A size that is split among the ranks of a tensor group, whose number must divide it; `key` is its name in the
// configuration.
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

  // Returns the tensor's offset in a part's unit, in elements.
  int64_t Tensor(DeclaredTensor tensor);
  // Returns the row's number among the unit's activations.
  int Activation(ActivationRow row);
  // Returns the number of the branch that begins here, from 0. The residual stream before every branch but the first is
  // kept.
  int BeginBranch();
  // States that a tensor group cuts this size; the same size may be declared more than once.
  void Shares(const SharedSize& size);
  void Product(const DeclaredProduct& product) { products_.push_back(product); }
  // The product's name in Hugging Face's tables, without ".weight".
  void Names(const std::string& product) { product_names_.push_back(product); }
  // Declares an adapter's tensor in the unit of a block's adapters. Returns its offset in a part's unit, in elements.
  int64_t AdapterTensor(DeclaredTensor tensor);
  // Declares elements of an adapter whose gradient a tensor group must sum. Returns their offset among all such
  // elements of the block.
  int64_t AdapterSums(int64_t elements) { return std::exchange(adapter_sums_, adapter_sums_ + elements); }
  // The number of columns of an adapter's input or output.
  void AdapterColumns(int64_t columns) { adapter_columns_ = std::max(adapter_columns_, columns); }
  static constexpr int64_t kMostAdapters = 3;  // per product
  // Declares a gradient with this number of columns within a branch.
  void Gradient(int64_t columns) { gradient_columns_ = std::max(gradient_columns_, columns); }
  // Declares a norm's parameters by their number of elements. If a tensor group must sum their gradient (`summed`: each
  // rank has it for some tokens or heads), returns its offset among all that the group sums at the end of the unit.
  int64_t NormSums(int64_t elements, bool summed);
  // Declares attention's products of queries of this width with the whole context.
  void Attention(int64_t width) { attention_width_ += width; }
  // Declares elements that the passes over one token, forward and backward, read and write outside the products.
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
  // Elements of all vectors of a part's unit: norms and biases.
  int64_t vectors() const { return vectors_; }
  // FLOPs per token of a forward pass over the whole unit: 2 for each element of a product's weight, and attention's
  // over the whole context.
  double ForwardFlops() const;
  // FLOPs per token of the last product alone.
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
  int64_t offset_ = 0, gradient_columns_ = 0, norm_sums_ = 0, vectors_ = 0, attention_width_ = 0;
  int64_t pointwise_elements_ = 0;
  int64_t adapter_offset_ = 0, adapter_sums_ = 0, adapter_columns_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_DECLARATION_H_
