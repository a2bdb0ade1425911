// GPT-2 as rows; the table that sizes, initialises, shards, decays and exports it.
//
// In parts: heads and the MLP's inner width are shared, so what makes them is cut by its rows and what takes them by
// its columns; the vocabulary is shared by the embedding's rows; what is as wide as the residual stream is in every
// part.
#include "worker/model/gpt2_spec.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet::model {
namespace {

struct Row {
  const char* name;
  std::vector<int64_t> shape;
  bool decay;
  Init init;
  Cut cut = {};
};

constexpr Cut kByRows = {Cut::Along::kRows}, kByColumns = {Cut::Along::kColumns};
constexpr Cut kByHeads = {Cut::Along::kRows, /*sections=*/3};  // queries, keys and values

// Matrices and the token embedding decay; biases, norms and the position embedding do not.
std::vector<Row> EmbeddingRows(const v1::ModelConfig& c) {
  return {{"wte.weight", {c.vocab(), c.hidden()}, true, Init::kNormal, kByRows},
          {"wpe.weight", {c.context(), c.hidden()}, false, Init::kNormal}};
}

std::vector<Row> BlockRows(const v1::ModelConfig& c) {
  int64_t hidden = c.hidden(), inner = c.intermediate();
  return {{"ln_1.weight", {hidden}, false, Init::kOnes},
          {"ln_1.bias", {hidden}, false, Init::kZeros},
          {"attn.c_attn.weight", {3 * hidden, hidden}, true, Init::kNormal, kByHeads},
          {"attn.c_attn.bias", {3 * hidden}, false, Init::kZeros, kByHeads},
          {"attn.c_proj.weight", {hidden, hidden}, true, Init::kResidualProjection, kByColumns},
          {"attn.c_proj.bias", {hidden}, false, Init::kZeros},
          {"ln_2.weight", {hidden}, false, Init::kOnes},
          {"ln_2.bias", {hidden}, false, Init::kZeros},
          {"mlp.c_fc.weight", {inner, hidden}, true, Init::kNormal, kByRows},
          {"mlp.c_fc.bias", {inner}, false, Init::kZeros, kByRows},
          {"mlp.c_proj.weight", {hidden, inner}, true, Init::kResidualProjection, kByColumns},
          {"mlp.c_proj.bias", {hidden}, false, Init::kZeros}};
}

std::vector<Row> HeadRows(const v1::ModelConfig& c) {
  return {{"ln_f.weight", {c.hidden()}, false, Init::kOnes}, {"ln_f.bias", {c.hidden()}, false, Init::kZeros}};
}

void AddRows(const std::string& prefix, const std::vector<Row>& rows, ModelSpec& spec) {
  for (const Row& row : rows) spec.AddTensor(absl::StrCat(prefix, row.name), row.shape, row.decay, row.init, row.cut);
}

// Running offsets of `rows`, handed to `fields` in order, the end last.
void AssignOffsets(const std::vector<Row>& rows, const ModelPart& part, const std::vector<int64_t*>& fields) {
  ZF_CHECK(fields.size() == rows.size() + 1);
  int64_t offset = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    *fields[i] = offset;
    offset += ElementsOf(ShapeOfPart(rows[i].shape, rows[i].cut, part));
  }
  *fields.back() = offset;
}

}  // namespace

void AddGpt2Tensors(const v1::ModelConfig& config, ModelSpec& spec) {
  spec.AddUnit("embedding");
  AddRows("transformer.", EmbeddingRows(config), spec);
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    spec.AddUnit(absl::StrCat("block.", layer));
    AddRows(absl::StrCat("transformer.h.", layer, "."), BlockRows(config), spec);
  }
  spec.AddUnit("head");
  AddRows("transformer.", HeadRows(config), spec);
}

Gpt2EmbeddingOffsets::Gpt2EmbeddingOffsets(const v1::ModelConfig& config, const ModelPart& part) {
  AssignOffsets(EmbeddingRows(config), part, {&wte, &wpe, &end});
}

Gpt2BlockOffsets::Gpt2BlockOffsets(const v1::ModelConfig& config, const ModelPart& part) {
  AssignOffsets(BlockRows(config), part,
                {&ln_1_weight, &ln_1_bias, &c_attn_weight, &c_attn_bias, &attn_proj_weight, &attn_proj_bias,
                 &ln_2_weight, &ln_2_bias, &c_fc_weight, &c_fc_bias, &mlp_proj_weight, &mlp_proj_bias, &end});
}

Gpt2HeadOffsets::Gpt2HeadOffsets(const v1::ModelConfig& config, const ModelPart& part) {
  AssignOffsets(HeadRows(config), part, {&ln_f_weight, &ln_f_bias, &end});
}

}  // namespace zerofleet::model
