// Which tokenizer a name stands for, and the one that needs no file.
#include "worker/text/tokenizer.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/text/bpe_tokenizer.h"
#include "worker/text/sentencepiece_tokenizer.h"
#include "worker/text/tiktoken.h"

namespace zerofleet::text {
namespace {

constexpr int64_t kMostTokenizerBytes = int64_t{128} << 20, kMostConfigBytes = int64_t{16} << 20;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One token per byte, so that any file is text.
class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return 256; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  const std::string& digest() const override { return digest_; }

  absl::Status EncodeTo(std::string_view text, bool /*special*/, std::vector<int32_t>& ids) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), bytes, bytes + text.size());
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool /*special*/) const override {
    std::string text;
    text.reserve(ids.size());
    for (int32_t id : ids) {
      if (id < 0 || id >= vocab()) {
        return absl::InvalidArgumentError(absl::StrCat("token ", id, " is not a byte (0 to 255)"));
      }
      text.push_back(static_cast<char>(id));
    }
    return text;
  }

  size_t LastCut(std::string_view text) const override { return text.size(); }

 private:
  const std::string digest_;
};

}  // namespace

std::string TokenizerPath(const std::string& name) {
  if (!IsDirectory(name)) return name;
  for (const char* file : kTokenizerFiles) {
    if (FileExists(JoinPath(name, file))) return JoinPath(name, file);
  }
  return JoinPath(name, kTokenizerFile);
}

std::string EndTokenSetting(const std::string& name) {
  if (name == kBytes) return "";
  const auto config = ReadSmallFile(JoinPath(ParentOf(TokenizerPath(name)), kTokenizerConfigFile), kMostConfigBytes);
  if (!config.ok()) return "";
  const absl::StatusOr<nlohmann::json> file = ParseJson(*config);
  if (!file.ok() || !file->is_object() || !file->contains(kEndTokenKey)) return "";
  const nlohmann::json& setting = (*file)[kEndTokenKey];
  return DumpJson(
      nlohmann::ordered_json(setting.is_object() && setting.contains("content") ? setting["content"] : setting));
}

std::string KeptTokenizerName(const std::string& path, std::string_view contents) {
  if (IsSentencePiece(contents)) return kSentencePieceFile;
  if (!IsTiktoken(contents)) return kTokenizerFile;
  const absl::StatusOr<TiktokenRanks> ranks = ParseTiktoken(contents, BaseName(path));
  return ranks.ok() ? absl::StrCat(ranks->encoding, kTiktokenEnding) : kTokenizerFile;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool special) const {
  std::vector<int32_t> ids;
  ZF_RETURN_IF_ERROR(EncodeTo(text, special, ids));
  return ids;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Parse(const std::string& path, std::string_view contents,
                                                            std::string_view config) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer;
  if (IsSentencePiece(contents)) {
    tokenizer = SentencePieceTokenizer::Parse(contents);
  } else if (IsTiktoken(contents)) {
    tokenizer = BpeTokenizer::ParseRanks(contents, BaseName(path));
  } else {
    tokenizer = BpeTokenizer::Parse(contents, config);
  }
  if (tokenizer.ok()) return tokenizer;
  return Annotate(tokenizer.status(), path);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& name) {
  if (name == kBytes) return std::make_unique<ByteTokenizer>();
  const std::string path = TokenizerPath(name);
  ZF_ASSIGN_OR_RETURN(const std::string contents, ReadSmallFile(path, kMostTokenizerBytes));
  std::string config;
  const std::string config_path = JoinPath(ParentOf(path), kTokenizerConfigFile);
  if (FileExists(config_path)) {
    ZF_ASSIGN_OR_RETURN(config, ReadSmallFile(config_path, kMostConfigBytes));
  }
  return Parse(path, contents, config);
}

}  // namespace zerofleet::text
