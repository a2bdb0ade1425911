// What surrounds the model in a tokenizer.json: normalizers and pre-tokenizers before it, decoders behind it.
//
// To add one, write its function and put its row into the table of its kind in steps.cc.
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

// A pre-tokenizer of words that a scanner finds, whose bytes become characters of byte_level.h.
struct ByteLevelWords {
  Scanner scanner = nullptr;  // null: it is another
  bool digits_alone = false;  // each numeric character is a piece of its own before words are looked for
};

// What `object`, which ParsePreTokenizer accepts, does, if it is of this kind.
ByteLevelWords FindByteLevelWords(const nlohmann::json& object);

// A part of a text on its way to the model.
struct Piece {
  std::string text;
  bool first;  // begins where the whole text begins
};

using Normalizer = std::function<absl::Status(std::string& text)>;
using PreTokenizer = std::function<absl::Status(std::vector<Piece>& pieces)>;
// From the texts of tokens to texts which, joined, are the result.
using Decoder = std::function<absl::Status(std::vector<std::string>& tokens)>;

// From the objects of a tokenizer.json; null gives an empty function. InvalidArgument, beginning with `where`, names
// what is malformed or not supported.
absl::StatusOr<Normalizer> ParseNormalizer(const nlohmann::json& object, const std::string& where);
absl::StatusOr<PreTokenizer> ParsePreTokenizer(const nlohmann::json& object, const std::string& where);
absl::StatusOr<Decoder> ParseDecoder(const nlohmann::json& object, const std::string& where);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_STEPS_H_
