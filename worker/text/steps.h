// The steps around the model in a tokenizer.json: normalizers and pre-tokenizers before it, decoders behind it.
//
// To add a step, write its function and put its row into the table of its kind in steps.cc.
#ifndef ZEROFLEET_WORKER_TEXT_STEPS_H_
#define ZEROFLEET_WORKER_TEXT_STEPS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/json_parse.h"
#include "worker/text/scanners.h"

namespace zerofleet::text {

// A pre-tokenizer that finds words with a scanner and maps their bytes to characters of byte_level.h.
struct ByteLevelWords {
  Scanner scanner = nullptr;  // null: the pre-tokenizer is of another kind
  bool digits_alone = false;  // each numeric character becomes a piece of its own before words are found
};

// What `object`, which ParsePreTokenizer accepts, does if it is of this kind.
ByteLevelWords FindByteLevelWords(const nlohmann::json& object);

// A part of a text on its way to the model.
struct Piece {
  std::string text;
  bool first;  // it begins where the whole text begins
};

using Normalizer = std::function<absl::Status(std::string& text)>;
using PreTokenizer = std::function<absl::Status(std::vector<Piece>& pieces)>;
// Maps the texts of tokens to texts that, joined, are the result.
using Decoder = std::function<absl::Status(std::vector<std::string>& tokens)>;

// Make steps from the objects of a tokenizer.json; null gives an empty function. InvalidArgument begins with `where`
// and names what is malformed or not supported.
absl::StatusOr<Normalizer> ParseNormalizer(const nlohmann::json& object, const std::string& where);
absl::StatusOr<PreTokenizer> ParsePreTokenizer(const nlohmann::json& object, const std::string& where);
absl::StatusOr<Decoder> ParseDecoder(const nlohmann::json& object, const std::string& where);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_STEPS_H_
