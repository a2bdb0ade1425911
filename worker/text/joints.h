// Between which characters a BPE model never merges: there a text without a pre-tokenizer, as Llama 2's and Gemma's,
// has words that can be encoded one by one.
//
// A merge across a place joins a token that ends with the character before it and one that begins with the character
// behind it. So where no merge joins two such tokens, no token of a text goes across. ASCII characters and the space
// mark (U+2581) count for themselves, all others as one.
#ifndef ZEROFLEET_WORKER_TEXT_JOINTS_H_
#define ZEROFLEET_WORKER_TEXT_JOINTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace zerofleet::text {

class Joints {
 public:
  // A merge can join `left` and `right`, which are UTF-8.
  void Add(std::string_view left, std::string_view right);
  // Each two neighbouring characters of `token` can be joined.
  void AddInside(std::string_view token);
  // `token` is in the vocabulary. Only before a character that is a token itself can a word begin: unknown ones may
  // become one token with those before them.
  void AddToken(std::string_view token);

  // The end, beyond `at`, of the word that begins at `at` in `text`, which must be UTF-8.
  size_t WordEnd(std::string_view text, size_t at) const;

 private:
  static constexpr size_t kSpaceMark = 128, kOther = 129, kKinds = 130;
  // The kind of the character at `at`, and its bytes.
  static std::pair<size_t, size_t> KindAt(std::string_view text, size_t at);

  std::array<std::array<bool, kKinds>, kKinds> joined_ = {};  // by the kinds of the left and the right character
  std::array<bool, kKinds> known_ = {};                       // kinds of which each character is a token
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_JOINTS_H_
