// Tokens that are found in a text before anything else happens to it: the `added_tokens` of a tokenizer.json.
#ifndef ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_
#define ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
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
  // InvalidArgument if the contents together are too long.
  absl::Status Add(const AddedToken& token, std::string_view content);
  bool empty() const { return nodes_.size() == 1; }
  // Returns the parts of `text` in order and without gaps; they overlap only where one token's rstrip and the next
  // token claim the same white space.
  std::vector<AddedTokenPart> Split(std::string_view text) const;

 private:
  const AddedToken* LongestAt(std::string_view text, size_t at, size_t& bytes) const;

  // A node of a tree of bytes: the tokens' contents are the paths from the root. Nodes are indices into nodes_; 0 is
  // the root.
  struct Node {
    const AddedToken* token = nullptr;  // whose content ends here
    uint32_t child = 0, sibling = 0;    // the first of the next nodes, and the next one behind the same node; 0: none
    uint8_t byte = 0;                   // that leads here
  };
  // The node to which `byte` leads from `node`; 0 if there is none.
  uint32_t Next(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<uint32_t, 256> first_ = {};  // the root's next nodes, by byte
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_ADDED_TOKENS_H_
