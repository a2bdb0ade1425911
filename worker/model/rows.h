// A transformer as rows, in the order of the forward pass. A family's file has rows and no code (families/gpt2.cc);
// layers/ has what each kind of row declares and does.
//
// A block is branches off the residual stream, each from a Norm to the Project that adds to the stream; each row takes
// the output of the one before it. Names are Hugging Face's, without ".weight" and ".bias".
#ifndef ZEROFLEET_WORKER_MODEL_ROWS_H_
#define ZEROFLEET_WORKER_MODEL_ROWS_H_

#include <cstdint>
#include <span>
#include <variant>

#include "worker/model/sizes.h"

namespace zerofleet::model {

enum class NormKind : uint8_t { kLayer, kRms };
enum class Bias : uint8_t { kNone, kBias, kConfigured };  // kConfigured: as model.qkv_bias says
enum class ActivationKind : uint8_t { kGelu };

// Normalises the residual stream, and begins a branch.
struct Norm {
  NormKind kind;
  const char* name;
};

// Products over one input whose outputs stand side by side. Their weights are neighbours in the table, so that the
// device sees one matrix; their biases follow. In a tensor group each weight is cut by its rows.
struct Spread {
  struct Product {
    const char* name = nullptr;  // null behind the last one
    Width width = {};
  };
  static constexpr int kMostProducts = 3;
  Product products[kMostProducts];
  Bias bias;
};

// Rotates queries and keys by their positions; with model.qk_norm, each head goes through an RMS norm first.
struct Rotate {
  const char *queries_norm, *keys_norm;
};

// Causal attention over queries, keys and values.
struct Attend {};

struct Activate {
  ActivationKind kind;
};

// The first half of its input, activated (SiLU), times the second half.
struct Gate {};

// A product into the residual stream, which ends a branch. In a tensor group its weight is cut by its columns.
struct Project {
  const char* name;
  Width width;  // of its input
  Bias bias;
};

using BlockRow = std::variant<Norm, Spread, Rotate, Attend, Activate, Gate, Project>;

// Begins the residual stream: a row for each token and, unless `positions` is null, one for each position.
struct Embedding {
  const char* tokens;
  const char* positions;
};

// Ends the residual stream: a norm behind the last block, and `output`, the matrix that makes the logits, whose name
// has no prefix. If it is null, or with model.tied, the head is tied to the token embedding, which makes them.
struct Head {
  Norm norm;
  const char* output;

  bool Tied(const Sizes& sizes) const { return output == nullptr || sizes.tied; }
};

struct FamilyRows {
  Embedding embedding;
  std::span<const BlockRow> block;
  Head head;
  float norm_epsilon;  // used unless the configuration sets one

  float Epsilon(const Sizes& sizes) const { return sizes.norm_epsilon > 0 ? sizes.norm_epsilon : norm_epsilon; }
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_ROWS_H_
