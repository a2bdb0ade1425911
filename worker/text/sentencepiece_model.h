// A sentencepiece tokenizer.model: those fields of its protocol buffer that encoding and decoding need.
//
// It is read by hand: Debian's libsentencepiece exports a protobuf of another version than this program's, and with
// both in one process each would call the other's functions.
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

  std::vector<Piece> pieces;  // indexed by id
  int32_t algorithm = kUnigram;
  bool byte_fallback = false, space_as_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  int32_t bos_id = 1, eos_id = 2;  // -1: there is none
  std::string charsmap;            // the normalizer's; empty: it maps nothing
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool has_denormalizer = false;
};

// Whether `contents` begins like such a file.
bool IsSentencePiece(std::string_view contents);

// InvalidArgument if `contents` is not such a message, or has no pieces.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view contents);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SENTENCEPIECE_MODEL_H_
