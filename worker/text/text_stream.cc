// The text that a token adds is the difference it makes to the text around it; see text_stream.h.
#include "worker/text/text_stream.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace zerofleet::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, for bytes that are no character, or not yet
constexpr size_t kMostPending = 16;                        // no character has more bytes

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<int32_t> before)
    : tokenizer_(tokenizer), tokens_(std::move(before)), told_(tokens_.size()) {}

absl::StatusOr<std::string> TextStream::Add(int32_t token) {
  tokens_.push_back(token);
  return Next(tokens_.size() - told_ >= kMostPending);
}

absl::StatusOr<std::string> TextStream::Finish() { return Next(/*even_incomplete=*/true); }

absl::StatusOr<std::string> TextStream::Next(bool even_incomplete) {
  const std::span<const int32_t> all(tokens_);
  ZF_ASSIGN_OR_RETURN(const std::string before,
                      tokenizer_.Decode(all.subspan(context_, told_ - context_), /*special=*/false));
  ZF_ASSIGN_OR_RETURN(const std::string after, tokenizer_.Decode(all.subspan(context_), /*special=*/false));
  if (after == before || (after.ends_with(kReplacement) && !even_incomplete)) return std::string();
  context_ = told_;
  told_ = tokens_.size();
  // The text before the token may end within a character that is whole now.
  size_t same = 0;
  while (same < std::min(before.size(), after.size()) && before[same] == after[same]) ++same;
  while (same > 0 && same < after.size() && IsContinuation(after[same])) --same;
  return after.substr(same);
}

}  // namespace zerofleet::text
