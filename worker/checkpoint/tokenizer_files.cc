// Small files, held whole; see tokenizer_files.h.
#include "worker/checkpoint/tokenizer_files.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int64_t kLargest = int64_t{128} << 20;
// Files beside the one that makes the tokenizer: a file of chat templates, which newer releases of transformers write,
// and the settings for sampling from a model, including the tokens that end its answers.
constexpr const char* kNamesBeside[] = {text::kTokenizerConfigFile, "chat_template.jinja", "generation_config.json"};

}  // namespace

bool IsTokenizerFileName(const std::string& name) {
  const auto is = [&name](const char* known) { return name == known; };
  return std::any_of(std::begin(text::kTokenizerFiles), std::end(text::kTokenizerFiles), is) ||
         std::any_of(std::begin(kNamesBeside), std::end(kNamesBeside), is);
}

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& tokenizer) {
  TokenizerFiles files;
  if (tokenizer.empty() || tokenizer == text::kBytes) return files;
  const std::string main = text::TokenizerPath(tokenizer);
  ZF_ASSIGN_OR_RETURN(std::string made_of, ReadSmallFile(main, kLargest));
  std::string kept = text::KeptTokenizerName(main, made_of);
  files.push_back({std::move(kept), std::move(made_of)});
  for (const char* name : kNamesBeside) {
    const std::string path = JoinPath(ParentOf(main), name);
    ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
    if (!there) continue;
    ZF_ASSIGN_OR_RETURN(std::string contents, ReadSmallFile(path, kLargest));
    files.push_back({name, std::move(contents)});
  }
  return files;
}

void DescribeTokenizer(const TokenizerFiles& files, v1::CheckpointManifest* manifest) {
  manifest->clear_tokenizer();
  for (const TokenizerFile& file : files) {
    v1::TokenizerFile* const entry = manifest->add_tokenizer();
    entry->set_name(file.name);
    entry->set_bytes(static_cast<int64_t>(file.contents.size()));
    entry->set_xxh3_128(Digest128(file.contents));
  }
}

absl::Status WriteTokenizerFiles(const std::string& dir, const TokenizerFiles& files) {
  for (const TokenizerFile& file : files) {
    ZF_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(dir, file.name), file.contents));
  }
  return absl::OkStatus();
}

absl::Status VerifyTokenizerFiles(const std::string& dir, const v1::CheckpointManifest& manifest) {
  for (const v1::TokenizerFile& file : manifest.tokenizer()) {
    const std::string path = JoinPath(dir, file.name());
    const absl::StatusOr<std::string> contents = ReadSmallFile(path, kLargest);
    if (!contents.ok()) return absl::DataLossError(contents.status().message());
    const std::string digest = Digest128(*contents);
    if (digest == file.xxh3_128() && static_cast<int64_t>(contents->size()) == file.bytes()) continue;
    return absl::DataLossError(absl::StrCat(path, ": has ", contents->size(), " bytes with XXH3-128 ", digest,
                                            ", the manifest says ", file.bytes(), " with ", file.xxh3_128()));
  }
  return absl::OkStatus();
}

std::string TokenizerOf(const std::string& step_dir, const v1::CheckpointManifest& manifest) {
  return manifest.tokenizer().empty() ? text::kBytes : step_dir;
}

}  // namespace zerofleet::checkpoint
