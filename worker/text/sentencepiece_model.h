// A sentencepiece tokenizer.model: the fields of its protocol buffer that encoding and decoding need.
//
// Read by hand: Debian's libsentencepiece exports a protobuf of another version than the one this program uses, and
// both in one process would call each other's functions.
#ifndef ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_MODEL_H_
#define ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::text {

struct SentencePieceModel {
  enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    int32_t type = kNormal;
  };
  enum Algorithm : int32_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces;  // by id
  int32_t algorithm = kUnigram;
  bool byte_fallback = false, space_as_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  int32_t bos_id = 1, eos_id = 2;  // -1: there is none
  std::string charsmap;            // of the normalizer; empty: it maps nothing
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool has_denormalizer = false;
};

// Whether `contents` begins as such a file.
bool IsSentencePiece(std::string_view contents);

// InvalidArgument for what is no such message, or has no pieces.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view contents);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_MODEL_H_
