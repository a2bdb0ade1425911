// Tokens that are found in a text before anything else is done to it: a tokenizer.json's `added_tokens`.
#ifndef ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_
#define ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/json_parse.h"

namespace zerofleet::text {

struct AddedToken {
  int32_t id;
  std::string content;
  bool single_word, lstrip, rstrip, normalized, special;
};

// InvalidArgument that names the entry. Null gives none.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const nlohmann::json& list);

// A part of a text: an added token's if `token` is not null.
struct AddedTokenPart {
  const AddedToken* token;
  size_t begin, end;
};

// Finds the leftmost and of these the longest token, again and again.
class AddedTokenFinder {
 public:
  // Finds `token`, which must outlive this, where its content, normalized, is `content`.
  void Add(const AddedToken& token, std::string content);
  // `text`, in order and without gaps but for the tokens that rstrip and the next one both claim.
  std::vector<AddedTokenPart> Split(std::string_view text) const;

 private:
  const AddedToken* LongestAt(std::string_view text, size_t at, size_t& bytes) const;

  absl::flat_hash_map<std::string, const AddedToken*> tokens_;
  // By first byte: the lengths that occur, longest first.
  std::array<std::vector<size_t>, 256> lengths_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_
