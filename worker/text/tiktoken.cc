// Lines of ranks, and the table of encodings; see tiktoken.h.
#include "worker/text/tiktoken.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/byte_level.h"

namespace zerofleet::text {
namespace {

constexpr size_t kMostRanks = size_t{1} << 22, kLongestToken = 512;  // in bytes; the longest in known files has 128
constexpr char kEndOfText[] = "<|endoftext|>";

struct EncodingRow {
  const char* name;
  std::vector<const char*> other_names;  // other names of its files
  size_t ranks;
  Scanner scanner;
  std::vector<std::pair<std::string, int32_t>> special;
};

// As in tiktoken 0.14; Llama 3's as in Meta's tokenizer.py.
const std::vector<EncodingRow>& Encodings() {
  static const std::vector<EncodingRow>& rows = *[] {
    auto* all = new std::vector<EncodingRow>{
        {"gpt2", {"r50k_base"}, 50256, ScanGpt2, {{kEndOfText, 50256}}},
        {"cl100k_base",
         {},
         100256,
         ScanTiktokenCl100k,
         {{kEndOfText, 100257},
          {"<|fim_prefix|>", 100258},
          {"<|fim_middle|>", 100259},
          {"<|fim_suffix|>", 100260},
          {"<|endofprompt|>", 100276}}},
        {"o200k_base", {}, 199998, ScanO200k, {{kEndOfText, 199999}, {"<|endofprompt|>", 200018}}},
        {"llama3", {}, 128000, ScanCl100k, {}}};
    std::vector<std::string> llama3 = {"<|begin_of_text|>",
                                       "<|end_of_text|>",
                                       "<|reserved_special_token_0|>",
                                       "<|reserved_special_token_1|>",
                                       "<|reserved_special_token_2|>",
                                       "<|reserved_special_token_3|>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|reserved_special_token_4|>",
                                       "<|eot_id|>"};
    constexpr int kLlama3Special = 256;
    for (int i = 5; llama3.size() < kLlama3Special; ++i) {
      llama3.push_back(absl::StrCat("<|reserved_special_token_", i, "|>"));
    }
    for (const std::string& token : llama3) {
      std::vector<std::pair<std::string, int32_t>>& special = all->back().special;
      special.emplace_back(token, static_cast<int32_t>(all->back().ranks + special.size()));
    }
    return all;
  }();
  return rows;
}

bool IsNamed(const EncodingRow& row, std::string_view name) {
  const absl::string_view file(name.data(), name.size());
  return absl::StrContains(file, row.name) ||
         std::ranges::any_of(row.other_names, [&](const char* other) { return absl::StrContains(file, other); });
}

// Removes the next line from `rest`; returns it without its end.
std::string_view NextLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// False if the line is not base64, a space and a rank.
bool ParseLine(std::string_view line, std::string& token, uint32_t& rank) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return false;
  const absl::string_view digits(line.data() + space + 1, line.size() - space - 1);
  if (digits.empty() || !absl::ascii_isdigit(digits.front()) || !absl::SimpleAtoi(digits, &rank)) return false;
  return absl::Base64Unescape(absl::string_view(line.data(), space), &token) && !token.empty() &&
         token.size() <= kLongestToken;
}

}  // namespace

bool IsTiktoken(std::string_view contents) {
  std::string token;
  uint32_t rank = 0;
  return ParseLine(NextLine(contents), token, rank);
}

absl::StatusOr<TiktokenRanks> ParseTiktoken(std::string_view contents, std::string_view name) {
  TiktokenRanks ranks;
  while (!contents.empty()) {
    const std::string_view line = NextLine(contents);
    if (line.empty() && contents.empty()) break;
    std::string token;
    uint32_t rank = 0;
    const size_t number = ranks.tokens.size();
    if (!ParseLine(line, token, rank)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number + 1, ": must be a token in base64 and its rank"));
    }
    if (rank != number || number >= kMostRanks) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number + 1, ": has rank ", rank,
                                                     "; ranks must be 0, 1, 2 and so on, below ", kMostRanks));
    }
    ranks.tokens.push_back(ToByteLevel(token));
  }
  const auto& rows = Encodings();
  auto row = std::ranges::find(rows, ranks.tokens.size(), &EncodingRow::ranks);
  const bool is_known = row != rows.end();
  if (!is_known) row = std::ranges::find_if(rows, [&](const EncodingRow& each) { return IsNamed(each, name); });
  if (row == rows.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", ranks.tokens.size(),
        " ranks, as no encoding that is known: gpt2 (50256), cl100k_base (100256), "
        "llama3 (128000) and o200k_base (199998); a file of another number must have one of these names in its own"));
  }
  ranks.encoding = row->name;
  ranks.scanner = row->scanner;
  ranks.special = row->special;
  // With another number of ranks, the ids of the encoding's special tokens could be those of ranks.
  if (!is_known) ranks.special = {{kEndOfText, static_cast<int32_t>(ranks.tokens.size())}};
  return ranks;
}

}  // namespace zerofleet::text
