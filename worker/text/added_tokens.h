// Tokens that are found in a text before anything else happens to it: the `added_tokens` of a tokenizer.json.
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

// InvalidArgument, naming the entry, if one is malformed. A null `list` gives no tokens.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const nlohmann::json& list);

// A part of a text; an added token's if `token` is not null.
struct AddedTokenPart {
  const AddedToken* token;
  size_t begin, end;
};

// Finds the leftmost token, the longest of those that begin there, and so on behind it.
class AddedTokenFinder {
 public:
  // Makes Split find `token`, which must outlive this, wherever `content`, its normalized content, occurs.
  void Add(const AddedToken& token, std::string content);
  // Returns the parts of `text` in order and without gaps; they overlap only where one token's rstrip and the next
  // token claim the same white space.
  std::vector<AddedTokenPart> Split(std::string_view text) const;

 private:
  const AddedToken* LongestAt(std::string_view text, size_t at, size_t& bytes) const;

  absl::flat_hash_map<std::string, const AddedToken*> tokens_;
  // Indexed by first byte: the lengths that occur, longest first.
  std::array<std::vector<size_t>, 256> lengths_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_
