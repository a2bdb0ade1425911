// One function for each type of step, and a table of each kind; see steps.h.
#include "worker/text/steps.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "worker/text/byte_level.h"
#include "worker/text/pattern.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

using Json = nlohmann::json;

constexpr char kGpt2Split[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::Status BadStep(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<std::string> StringField(const Json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_string()) return BadStep(absl::StrCat(key, ": must be a string"));
  return object[key].get<std::string>();
}

absl::StatusOr<bool> BoolField(const Json& object, const char* key, bool absent) {
  if (!object.contains(key)) return absent;
  if (!object[key].is_boolean()) return BadStep(absl::StrCat(key, ": must be true or false"));
  return object[key].get<bool>();
}

absl::StatusOr<std::shared_ptr<const Pattern>> PatternField(const Json& object) {
  if (!object.contains("pattern") || !object["pattern"].is_object()) return BadStep("pattern: must be an object");
  const Json& pattern = object["pattern"];
  if (pattern.contains("String")) {
    ZF_ASSIGN_OR_RETURN(std::string literal, StringField(pattern, "String"));
    return std::shared_ptr<const Pattern>(LiteralPattern(std::move(literal)));
  }
  ZF_ASSIGN_OR_RETURN(const std::string expression, StringField(pattern, "Regex"));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<Pattern> compiled, RegexPattern(expression));
  return std::shared_ptr<const Pattern>(std::move(compiled));
}

// How matches and the text between them become pieces.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

void Joined(std::vector<Span>& spans, Behavior behavior) {
  std::vector<Span> pieces;
  bool matched_before = false;
  const bool backward = behavior == Behavior::kMergedWithNext;
  if (backward) std::ranges::reverse(spans);
  for (const Span& span : spans) {
    const bool joins =
        behavior == Behavior::kContiguous ? span.matched == matched_before : span.matched && !matched_before;
    if (joins && !pieces.empty()) {
      (backward ? pieces.back().begin : pieces.back().end) = backward ? span.begin : span.end;
    } else {
      pieces.push_back(span);
    }
    matched_before = span.matched;
  }
  if (backward) std::ranges::reverse(pieces);
  spans = std::move(pieces);
}

void AddPieces(const Piece& piece, std::vector<Span> spans, Behavior behavior, std::vector<Piece>& pieces) {
  if (behavior == Behavior::kRemoved) {
    std::erase_if(spans, [](const Span& span) { return span.matched; });
  } else if (behavior != Behavior::kIsolated) {
    Joined(spans, behavior);
  }
  for (const Span& span : spans) {
    if (span.begin == span.end) continue;
    pieces.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
  }
}

absl::Status SplitAll(const Pattern& pattern, Behavior behavior, bool invert, std::vector<Piece>& pieces) {
  std::vector<Piece> split;
  for (Piece& piece : pieces) {
    ZF_ASSIGN_OR_RETURN(std::vector<Span> spans, pattern.Find(piece.text));
    if (spans.size() == 1 && !spans[0].matched && !invert) {  // nothing divides it
      split.push_back(std::move(piece));
      continue;
    }
    for (Span& span : spans) span.matched = span.matched != invert;
    AddPieces(piece, std::move(spans), behavior, split);
  }
  pieces = std::move(split);
  return absl::OkStatus();
}

// Normalizers.

absl::StatusOr<Normalizer> PrependNormalizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::string prefix, StringField(object, "prepend"));
  return [prefix](std::string& text) {
    if (!text.empty()) text.insert(0, prefix);
    return absl::OkStatus();
  };
}

absl::StatusOr<Normalizer> ReplaceNormalizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<const Pattern> pattern, PatternField(object));
  ZF_ASSIGN_OR_RETURN(const std::string content, StringField(object, "content"));
  return [pattern, content](std::string& text) -> absl::Status {
    ZF_ASSIGN_OR_RETURN(text, pattern->Replace(text, content));
    return absl::OkStatus();
  };
}

template <std::string (*Map)(std::string_view)>
absl::StatusOr<Normalizer> MappingNormalizer(const Json&) {
  return [](std::string& text) {
    text = Map(text);
    return absl::OkStatus();
  };
}

std::string Nfc(std::string_view text) { return Compose(text, /*compatible=*/false); }
std::string Nfkc(std::string_view text) { return Compose(text, /*compatible=*/true); }

// Pre-tokenizers.

absl::StatusOr<PreTokenizer> SplitPreTokenizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<const Pattern> pattern, PatternField(object));
  ZF_ASSIGN_OR_RETURN(const bool invert, BoolField(object, "invert", false));
  ZF_ASSIGN_OR_RETURN(const std::string name, StringField(object, "behavior"));
  static constexpr std::pair<std::string_view, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  for (const auto& [known, behavior] : kBehaviors) {
    if (known != name) continue;
    return [pattern, invert, behavior = behavior](std::vector<Piece>& pieces) {
      return SplitAll(*pattern, behavior, invert, pieces);
    };
  }
  return BadStep(absl::StrCat("behavior: '", name, "' is not supported"));
}

absl::StatusOr<PreTokenizer> ByteLevelPreTokenizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const bool add_prefix_space, BoolField(object, "add_prefix_space", true));
  ZF_ASSIGN_OR_RETURN(const bool use_regex, BoolField(object, "use_regex", true));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<Pattern> compiled, RegexPattern(kGpt2Split));
  const std::shared_ptr<const Pattern> pattern = std::move(compiled);
  return [=](std::vector<Piece>& pieces) -> absl::Status {
    for (Piece& piece : pieces) {
      if (add_prefix_space && !piece.text.starts_with(' ')) piece.text.insert(0, " ");
    }
    if (use_regex) ZF_RETURN_IF_ERROR(SplitAll(*pattern, Behavior::kIsolated, false, pieces));
    for (Piece& piece : pieces) piece.text = ToByteLevel(piece.text);
    return absl::OkStatus();
  };
}

class NumericPattern : public Pattern {
 public:
  absl::StatusOr<std::vector<Span>> Find(std::string_view text) const override {
    std::vector<Span> spans;
    for (size_t at = 0; at < text.size();) {
      const Character character = CharacterAt(text, at);
      const bool numeric = IsNumeric(character.code);
      if (!numeric && !spans.empty() && !spans.back().matched) {
        spans.back().end += character.bytes;
      } else {
        spans.push_back({at, at + character.bytes, numeric});
      }
      at += character.bytes;
    }
    return spans;
  }
};

absl::StatusOr<PreTokenizer> DigitsPreTokenizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const bool individual, BoolField(object, "individual_digits", false));
  const Behavior behavior = individual ? Behavior::kIsolated : Behavior::kContiguous;
  return [behavior](std::vector<Piece>& pieces) { return SplitAll(NumericPattern(), behavior, false, pieces); };
}

// Reads "prepend_scheme", or the older "add_prefix_space".
absl::StatusOr<std::string> PrependScheme(const Json& object) {
  std::string scheme = "always";
  if (object.contains("prepend_scheme")) {
    ZF_ASSIGN_OR_RETURN(scheme, StringField(object, "prepend_scheme"));
  } else {
    ZF_ASSIGN_OR_RETURN(const bool add, BoolField(object, "add_prefix_space", true));
    if (!add) scheme = "never";
  }
  if (scheme == "always" || scheme == "first" || scheme == "never") return scheme;
  return BadStep(absl::StrCat("prepend_scheme: '", scheme, "' is not supported"));
}

absl::StatusOr<PreTokenizer> MetaspacePreTokenizer(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::string replacement, StringField(object, "replacement"));
  ZF_ASSIGN_OR_RETURN(const std::string scheme, PrependScheme(object));
  ZF_ASSIGN_OR_RETURN(const bool split, BoolField(object, "split", true));
  const std::shared_ptr<const Pattern> pattern = LiteralPattern(replacement);
  return [=](std::vector<Piece>& pieces) -> absl::Status {
    for (Piece& piece : pieces) {
      piece.text = absl::StrReplaceAll(piece.text, {{" ", replacement}});
      const bool prepends = scheme == "always" || (scheme == "first" && piece.first);
      if (prepends && !piece.text.starts_with(replacement)) piece.text.insert(0, replacement);
    }
    return split ? SplitAll(*pattern, Behavior::kMergedWithNext, false, pieces) : absl::OkStatus();
  };
}

// Decoders.

absl::StatusOr<Decoder> ByteLevelDecoder(const Json&) {
  return [](std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) {
      if (!FromByteLevel(token, bytes)) bytes.append(token);
    }
    tokens = {ReplaceBroken(bytes)};
    return absl::OkStatus();
  };
}

// The byte that a text such as "<0xAB>" names; -1 for other texts.
int NamedByte(std::string_view token) {
  uint32_t byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  return absl::SimpleHexAtoi(std::string(token.substr(3, 2)), &byte) ? static_cast<int>(byte) : -1;
}

absl::StatusOr<Decoder> ByteFallbackDecoder(const Json&) {
  return [](std::vector<std::string>& tokens) {
    std::vector<std::string> texts;
    std::string bytes;
    auto end_bytes = [&] {
      if (IsUtf8(bytes)) {
        if (!bytes.empty()) texts.push_back(bytes);
      } else {
        texts.insert(texts.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = NamedByte(token); byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      end_bytes();
      texts.push_back(std::move(token));
    }
    end_bytes();
    tokens = std::move(texts);
    return absl::OkStatus();
  };
}

absl::StatusOr<Decoder> FuseDecoder(const Json&) {
  return [](std::vector<std::string>& tokens) {
    tokens = {absl::StrJoin(tokens, "")};
    return absl::OkStatus();
  };
}

absl::StatusOr<Decoder> StripDecoder(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::string content, StringField(object, "content"));
  for (const char* key : {"start", "stop"}) {
    if (!object.contains(key) || !object[key].is_number_unsigned())
      return BadStep(absl::StrCat(key, ": must be a count"));
  }
  if (content.empty()) return BadStep("content: must be a character");
  const auto start = object["start"].get<uint64_t>(), stop = object["stop"].get<uint64_t>();
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (uint64_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
      for (uint64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
      token = std::string(rest);
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<Decoder> ReplaceDecoder(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<const Pattern> pattern, PatternField(object));
  ZF_ASSIGN_OR_RETURN(const std::string content, StringField(object, "content"));
  return [=](std::vector<std::string>& tokens) -> absl::Status {
    for (std::string& token : tokens) {
      ZF_ASSIGN_OR_RETURN(token, pattern->Replace(token, content));
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<Decoder> MetaspaceDecoder(const Json& object) {
  ZF_ASSIGN_OR_RETURN(const std::string replacement, StringField(object, "replacement"));
  ZF_ASSIGN_OR_RETURN(const std::string scheme, PrependScheme(object));
  return [replacement, prepended = scheme != "never"](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = absl::StrReplaceAll(tokens[i], {{replacement, i == 0 && prepended ? "" : " "}});
    }
    return absl::OkStatus();
  };
}

template <typename Step>
struct StepRow {
  std::string_view type;
  absl::StatusOr<Step> (*parse)(const Json& object);
};

constexpr StepRow<Normalizer> kNormalizers[] = {{"Prepend", PrependNormalizer},
                                                {"Replace", ReplaceNormalizer},
                                                {"NFC", MappingNormalizer<Nfc>},
                                                {"NFKC", MappingNormalizer<Nfkc>},
                                                {"Lowercase", MappingNormalizer<LowerCase>}};
constexpr StepRow<PreTokenizer> kPreTokenizers[] = {{"Split", SplitPreTokenizer},
                                                    {"ByteLevel", ByteLevelPreTokenizer},
                                                    {"Digits", DigitsPreTokenizer},
                                                    {"Metaspace", MetaspacePreTokenizer}};
constexpr StepRow<Decoder> kDecoders[] = {{"ByteLevel", ByteLevelDecoder}, {"ByteFallback", ByteFallbackDecoder},
                                          {"Fuse", FuseDecoder},           {"Strip", StripDecoder},
                                          {"Replace", ReplaceDecoder},     {"Metaspace", MetaspaceDecoder}};

// Parses one step of the table, or a Sequence of steps, listed under `list_key`. The bounded depth of JSON bounds the
// recursion.
template <typename Step, typename Value, size_t kRows>
absl::StatusOr<Step> ParseStep(const Json& object, const StepRow<Step> (&rows)[kRows], const char* list_key,
                               const std::string& where) {
  if (object.is_null()) return Step();
  auto bad = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(where, ": ", what)); };
  if (!object.is_object() || !object.contains("type") || !object["type"].is_string()) return bad("has no type");
  const std::string type = object["type"].get<std::string>();
  if (type == "Sequence") {
    if (!object.contains(list_key) || !object[list_key].is_array())
      return bad(absl::StrCat(list_key, ": must be a list"));
    std::vector<Step> steps;
    for (const Json& part : object[list_key]) {
      const std::string part_name = absl::StrCat(where, ".", list_key, "[", steps.size(), "]");
      ZF_ASSIGN_OR_RETURN(Step step, (ParseStep<Step, Value>(part, rows, list_key, part_name)));
      if (step == nullptr) return absl::InvalidArgumentError(absl::StrCat(part_name, ": must not be null"));
      steps.push_back(std::move(step));
    }
    return Step([steps](Value& value) -> absl::Status {
      for (const Step& step : steps) ZF_RETURN_IF_ERROR(step(value));
      return absl::OkStatus();
    });
  }
  const auto* row = std::ranges::find(rows, type, &StepRow<Step>::type);
  if (row == std::end(rows)) return bad(absl::StrCat("type '", type, "' is not supported"));
  absl::StatusOr<Step> step = row->parse(object);
  if (!step.ok()) return bad(absl::StrCat(type, ": ", step.status().message()));
  return step;
}

}  // namespace

absl::StatusOr<Normalizer> ParseNormalizer(const Json& object, const std::string& where) {
  return ParseStep<Normalizer, std::string>(object, kNormalizers, "normalizers", where);
}

ByteLevelWords FindByteLevelWords(const Json& object) {
  const auto is = [](const Json& step, const char* key, const Json& value, const Json& absent) {
    return (step.contains(key) ? step[key] : absent) == value;
  };
  const auto type_of = [](const Json& step) { return step.is_object() ? step.value("type", Json()) : Json(); };
  if (!object.is_object()) return {};
  const bool sequence = type_of(object) == "Sequence";
  const Json alone = Json::array({object});
  const Json& steps = sequence ? object["pretokenizers"] : alone;
  if (steps.empty() || type_of(steps.back()) != "ByteLevel" || !is(steps.back(), "add_prefix_space", false, true)) {
    return {};
  }
  const bool splits = is(steps.back(), "use_regex", true, true);
  if (steps.size() == 1) return {splits ? ScanGpt2 : nullptr, false};
  if (type_of(steps.front()) == "Digits") {
    const bool gpt2 = steps.size() == 2 && splits && is(steps.front(), "individual_digits", true, false);
    return {gpt2 ? ScanGpt2 : nullptr, true};
  }
  std::vector<std::string> expressions;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const Json& step = steps[i];
    const bool plain = type_of(step) == "Split" && is(step, "invert", false, false) &&
                       is(step, "behavior", "Isolated", Json()) && step["pattern"].contains("Regex");
    if (!plain || splits) return {};
    expressions.push_back(step["pattern"]["Regex"].get<std::string>());
  }
  return {ScannerOf(expressions), false};
}

absl::StatusOr<PreTokenizer> ParsePreTokenizer(const Json& object, const std::string& where) {
  return ParseStep<PreTokenizer, std::vector<Piece>>(object, kPreTokenizers, "pretokenizers", where);
}

absl::StatusOr<Decoder> ParseDecoder(const Json& object, const std::string& where) {
  return ParseStep<Decoder, std::vector<std::string>>(object, kDecoders, "decoders", where);
}

}  // namespace zerofleet::text
