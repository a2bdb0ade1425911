// The key's words as numbers; see checkpointing.h.
#include "worker/model/checkpointing.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

struct PolicyRow {
  const char* word;
  Checkpointing checkpointing;
};

constexpr PolicyRow kPolicies[] = {
    {"none", {}},
    {"block", {.segment = 1}},
    {"selective", {.selective = true}},
};

constexpr int64_t kMostBlocks = 10'000;  // the most blocks that a model may have

}  // namespace

absl::StatusOr<Checkpointing> ParseCheckpointing(const std::string& text) {
  for (const PolicyRow& row : kPolicies) {
    if (text == row.word) return row.checkpointing;
  }
  absl::string_view digits = text;
  int64_t every = 0;
  if (absl::ConsumePrefix(&digits, "{every:") && absl::ConsumeSuffix(&digits, "}") &&
      absl::SimpleAtoi(digits, &every) && every >= 1 && every <= kMostBlocks) {
    return Checkpointing{.segment = every};
  }
  return absl::InvalidArgumentError(absl::StrCat("activation.checkpointing is '", text, "'; it is one of ",
                                                 absl::StrJoin(CheckpointingWords(), ", ")));
}

absl::StatusOr<Checkpointing> CheckpointingOf(const v1::ActivationConfig& activation,
                                              const v1::BuffersConfig& buffers) {
  ZF_ASSIGN_OR_RETURN(Checkpointing checkpointing, ParseCheckpointing(activation.checkpointing()));
  checkpointing.partition = activation.partition();
  checkpointing.offload = activation.offload() == "cpu";
  checkpointing.band_bytes = buffers.bucket_bytes();
  return checkpointing;
}

std::vector<std::string> CheckpointingWords() {
  std::vector<std::string> words;
  for (const PolicyRow& row : kPolicies) words.emplace_back(row.word);
  words.emplace_back(kEveryWord);
  return words;
}

std::string EveryText(int64_t blocks) { return absl::StrCat("{every: ", blocks, "}"); }

}  // namespace zerofleet::model
