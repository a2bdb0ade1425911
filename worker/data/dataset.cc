// Mapping files to samples; see dataset.h.
#include "worker/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/data/tokenizer.h"

namespace zerofleet {
namespace {

// What a format, or with `auto` a file name's ending, says about the width of a token. Little-endian.
struct Format {
  const char* name;
  int token_bytes;
  std::vector<const char*> endings;  // under `auto`; none of them: text
};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{
      {"text", 1, {}}, {"tokens_u16", 2, {".bin", ".u16"}}, {"tokens_u32", 4, {".u32"}}};
  return *formats;
}

const Format& FormatOf(const std::string& path, const std::string& name) {
  for (const Format& format : Formats()) {
    if (name == format.name) return format;
    for (const char* ending : format.endings) {
      if (name == "auto" && absl::EndsWith(path, ending)) return format;
    }
  }
  return Formats().front();
}

absl::Status CheckConfig(const v1::DataConfig& config) {
  bool known = config.format() == "auto";
  for (const Format& format : Formats()) known |= config.format() == format.name;
  if (!known) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.format: '", config.format(), "' is not in this version; use auto, text, tokens_u16 or tokens_u32"));
  }
  return Tokenizer::Create(config.tokenizer()).status();
}

absl::Status TooShort(const std::string& path, int64_t tokens, int64_t context) {
  return absl::DataLossError(absl::StrCat(path, ": ", tokens, " tokens; at least ", context + 1,
                                          " (model.context + 1) are needed for one sample"));
}

// A file's tokens from `first` on, widened; the width is the type's.
template <typename T>
void Widen(const std::byte* tokens, int64_t first, std::span<uint32_t> into) {
  for (size_t i = 0; i < into.size(); ++i) {
    T token;
    std::memcpy(&token, tokens + (first + static_cast<int64_t>(i)) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    into[i] = token;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(const v1::DataConfig& config,
                                                       const std::vector<std::string>& paths, int64_t context,
                                                       int64_t vocab) {
  ZF_CHECK(context >= 1);
  ZF_CHECK(vocab >= 1);
  ZF_RETURN_IF_ERROR(CheckConfig(config));
  if (paths.empty()) return absl::InvalidArgumentError("data: no files given");
  auto dataset = std::unique_ptr<Dataset>(new Dataset(context, vocab));
  for (const std::string& path : paths) ZF_RETURN_IF_ERROR(dataset->AddPath(path, config.format()));
  return dataset;
}

absl::Status Dataset::AddPath(const std::string& path, const std::string& format) {
  const int64_t samples_before = samples_;
  int64_t tokens = 0;
  if (IsDirectory(path)) {
    ZF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
    for (const std::string& name : names) {
      std::string file = JoinPath(path, name);
      if (name.front() == '.' || !FileBytes(file).ok()) continue;
      int64_t file_tokens = 0;
      ZF_RETURN_IF_ERROR(AddFile(file, format, &file_tokens));
      tokens = std::max(tokens, file_tokens);
    }
    if (samples_ == samples_before) {
      return absl::DataLossError(absl::StrCat(path, ": no file in this directory holds a sample: the longest has ",
                                              tokens, " tokens, at least ", context_ + 1,
                                              " (model.context + 1) are needed"));
    }
    return absl::OkStatus();
  }
  ZF_RETURN_IF_ERROR(AddFile(path, format, &tokens));
  if (samples_ == samples_before) return TooShort(path, tokens, context_);
  return absl::OkStatus();
}

absl::Status Dataset::AddFile(const std::string& path, const std::string& format_name, int64_t* tokens) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const Format& format = FormatOf(path, format_name);
  const int64_t bytes = static_cast<int64_t>(file->bytes().size());
  if (bytes % format.token_bytes != 0) {
    return absl::DataLossError(absl::StrCat(path, ": ", bytes, " bytes are no whole number of ", format.token_bytes,
                                            "-byte tokens (", format.name, ")"));
  }
  *tokens = bytes / format.token_bytes;
  const int64_t samples = *tokens == 0 ? 0 : (*tokens - 1) / context_;
  if (samples > 0) {
    files_.push_back({std::move(file), format.token_bytes, samples_});
    samples_ += samples;
  }
  return absl::OkStatus();
}

absl::Status Dataset::Read(int64_t sample, std::span<int32_t> tokens) const {
  ZF_CHECK(sample >= 0 && sample < samples_);
  ZF_CHECK(static_cast<int64_t>(tokens.size()) == context_ + 1);
  auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                [](int64_t value, const TokenFile& file) { return value < file.first_sample; });
  const TokenFile& source = *std::prev(after);
  const int64_t first = (sample - source.first_sample) * context_;
  const std::byte* data = source.file->bytes().data();
  // An int32_t may be written through its unsigned twin; ids are compared unsigned, before any is used.
  std::span<uint32_t> ids(reinterpret_cast<uint32_t*>(tokens.data()), tokens.size());
  if (source.token_bytes == 1) Widen<uint8_t>(data, first, ids);
  if (source.token_bytes == 2) Widen<uint16_t>(data, first, ids);
  if (source.token_bytes == 4) Widen<uint32_t>(data, first, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < static_cast<uint64_t>(vocab_) && ids[i] <= static_cast<uint32_t>(INT32_MAX)) continue;
    return absl::DataLossError(absl::StrCat(source.file->path(), ": token ", first + static_cast<int64_t>(i), " is id ",
                                            ids[i], ", the vocabulary has ", vocab_));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet
