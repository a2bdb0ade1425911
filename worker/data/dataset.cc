// Files to samples; see dataset.h.
#include "worker/data/dataset.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/threads.h"
#include "worker/data/id_scan.h"
#include "worker/data/megatron_index.h"
#include "worker/data/tokenize.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::data {
namespace {

absl::Status TooShort(const std::string& path, int64_t tokens, int64_t context) {
  return absl::DataLossError(absl::StrCat(path, ": ", tokens, " tokens; at least ", context + 1,
                                          " (model.context + 1) are needed for one sample"));
}

constexpr char kBin[] = ".bin", kIndex[] = ".idx";
// The bits of an id that are marks.
constexpr int32_t kMarks = kUncounted | kEndsDocument;

// The path of the index that lies next to a Megatron data file.
std::string IndexOf(const std::string& path) { return path.substr(0, path.size() - std::strlen(kBin)) + kIndex; }

// The first bytes of X.idx for X.bin, empty if there is none.
std::string IndexHead(const std::string& path) {
  if (!absl::EndsWith(path, kBin)) return "";
  absl::StatusOr<std::unique_ptr<TokenFile>> index = TokenFile::Open(IndexOf(path), /*keep_open=*/false);
  return index.ok() ? (*index)->head() : "";
}

FileFacts FactsOf(const TokenFile& file, const std::string& index_head) {
  return {file.path(), file.bytes(), file.head(), index_head};
}

// Widens in place the ids that fill the end of `tokens`, from the first on: each is read before it is overwritten.
template <typename T>
void WidenInPlace(std::span<uint32_t> tokens) {
  const auto* narrow =
      reinterpret_cast<const std::byte*>(tokens.data()) + tokens.size() * (sizeof(uint32_t) - sizeof(T));
  for (size_t i = 0; i < tokens.size(); ++i) {
    T id;
    std::memcpy(&id, narrow + i * sizeof(T), sizeof(T));
    tokens[i] = id;
  }
}

}  // namespace

std::vector<DataPath> ConfiguredPaths(const std::string& key,
                                      const google::protobuf::RepeatedPtrField<std::string>& paths) {
  std::vector<DataPath> named;
  for (int i = 0; i < paths.size(); ++i) named.push_back({absl::StrCat(key, "[", i, "]"), paths[i]});
  return named;
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(const v1::DataConfig& config, const std::vector<DataPath>& paths,
                                                       int64_t context, int64_t vocab, TextTokenizer& text) {
  ZF_CHECK(context >= 1);
  ZF_CHECK(vocab >= 1);
  ZF_RETURN_IF_ERROR(CheckFormatName(config.format()));
  if (paths.empty()) return absl::InvalidArgumentError("data: no files given");
  auto dataset = std::unique_ptr<Dataset>(new Dataset(context, vocab));
  dataset->packing_ = config.packing();
  const Opening opening = {config.format(), config.tokenizer().empty() || config.tokenizer() == text::kBytes,
                           config.loss_on() == "assistant", text};
  for (const DataPath& path : paths) {
    const int64_t before = dataset->samples_;
    ZF_RETURN_IF_ERROR(Annotate(dataset->AddPath(path, opening), path.key));
    dataset->samples_by_path_.push_back(dataset->samples_ - before);
  }
  return dataset;
}

absl::Status Dataset::AddPath(const DataPath& path, const Opening& opening) {
  if (IsDirectory(path.path)) return AddDirectory(path, opening);
  const int64_t samples_before = samples_;
  ZF_ASSIGN_OR_RETURN(const int64_t tokens, AddFile(path, opening, /*in_directory=*/false));
  return samples_ == samples_before ? TooShort(path.path, tokens, context_) : absl::OkStatus();
}

absl::Status Dataset::AddDirectory(const DataPath& path, const Opening& opening) {
  const int64_t samples_before = samples_;
  int64_t longest = 0;
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> files, DataFilesIn(path.path));
  for (const std::string& file : files) {
    ZF_ASSIGN_OR_RETURN(const int64_t tokens, AddFile({path.key, file}, opening, /*in_directory=*/true));
    longest = std::max(longest, tokens);
  }
  if (samples_ > samples_before) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path.path, ": no file in this directory holds a sample: the longest has ",
                                          longest, " tokens, at least ", context_ + 1,
                                          " (model.context + 1) are needed"));
}

absl::StatusOr<int64_t> Dataset::AddFile(const DataPath& path, const Opening& opening, bool in_directory) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<TokenFile> file,
                      TokenFile::Open(path.path, /*keep_open=*/std::ssize(sources_) < kMostKeptOpen));
  if (in_directory && IsMegatronIndex(file->head())) return 0;
  const std::string index_head = IndexHead(path.path);
  ZF_ASSIGN_OR_RETURN(TokenFormat format, RecogniseFormat(FactsOf(*file, index_head), opening.format));
  Source source;
  source.key = path.key;
  source.file = std::move(file);
  source.format = std::move(format);
  source.first_sample = samples_;
  // A user who asks for text with the tokenizer `bytes` means the bytes of the file itself.
  const bool its_bytes = opening.bytes && !source.format.json_lines() &&
                         (source.format.compression == Compression::kNone || opening.format == source.format.name);
  if (source.format.is_text() && !its_bytes) {
    ZF_ASSIGN_OR_RETURN(TextTokens tokens, opening.text.Open(*source.file, source.format));
    source.text_format = source.format.name;
    source.text = std::exchange(source.file, std::move(tokens.file));
    source.format = std::move(tokens.format);
    source.documents = tokens.documents;
    source.marks = tokens.marks;
    source.digest = tokens.digest;
  } else if (opening.answers) {
    return absl::DataLossError(absl::StrCat(path.path,
                                            ": data.loss_on: assistant needs JSON lines of a \"prompt\" and "
                                            "a \"completion\", and a tokenizer"));
  }
  if (source.format.has_index) ZF_RETURN_IF_ERROR(ReadIndex(source));
  if (packing_ && source.document_starts.empty()) ZF_RETURN_IF_ERROR(FindEndToken(opening.text));
  const int64_t tokens = source.format.tokens;
  source.samples = tokens == 0 ? 0 : (tokens - 1) / context_;
  if (source.samples > 0) {
    samples_ += source.samples;
    if (source.marks || packing_) ZF_RETURN_IF_ERROR(CountTargets(source));
    sources_.push_back(std::move(source));
  }
  return tokens;
}

absl::Status Dataset::ReadIndex(Source& source) const {
  const std::string path = IndexOf(source.file->path());
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TokenFile> index, TokenFile::Open(path, /*keep_open=*/true));
  ZF_ASSIGN_OR_RETURN(MegatronIndex read, ReadMegatronIndex(*index, source.file->bytes()));
  source.documents = std::ssize(read.document_starts);
  if (packing_) source.document_starts = std::move(read.document_starts);
  return absl::OkStatus();
}

absl::Status Dataset::FindEndToken(TextTokenizer& text) {
  if (end_token_.has_value()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(end_token_, text.EndToken());
  if (end_token_.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data.packing: documents are told apart by the token that ends a text, and data.tokenizer has none");
}

Dataset::Summary Dataset::Summarise() const {
  Summary summary;
  for (const Source& source : sources_) {
    const std::string& format = source.text == nullptr ? source.format.name : source.text_format;
    if (std::find(summary.formats.begin(), summary.formats.end(), format) == summary.formats.end()) {
      summary.formats.push_back(format);
    }
    ++summary.files;
    summary.tokens += source.format.tokens;
    summary.documents += source.documents;
  }
  return summary;
}

absl::Status Dataset::IdTooLarge(const Source& source, int64_t position, uint32_t id) const {
  return absl::DataLossError(absl::StrCat(source.key, ": ", source.named().path(), ": token ", position, " is id ", id,
                                          "; ids must be below the vocabulary, ", vocab_,
                                          source.format.token_bytes > 1 ? TextHint(source.file->head()) : ""));
}

v1::DataFiles Dataset::Files() const {
  FileLister lister;
  for (const Source& source : sources_) {
    lister.Add(source.named().path(), source.named().bytes(), source.named().digest());
  }
  return lister.Done();
}

DataChange Dataset::ChangeSince(const std::string& key, const v1::DataFiles& before) const {
  return Compare(key, before, Files(), [this](int file, int64_t bytes) {
    return sources_[static_cast<size_t>(file)].named().DigestOfBeginning(bytes);
  });
}

absl::StatusOr<int64_t> Dataset::CheckIds(int threads, CheckedFiles& checked,
                                          const std::function<bool()>& cancelled) const {
  int64_t bytes = 0;
  for (const Source& source : sources_) {
    if (source.text != nullptr) {
      const std::string key = Digest128(absl::StrCat(source.file->Identity(), " is whole"));
      if (!checked.Contains(key)) {
        ZF_RETURN_IF_ERROR(VerifyTokens(*source.file, source.format, source.digest, cancelled));
        checked.Add(key);
      }
    }
    if (source.marks || !MayExceed(source.format, vocab_)) continue;
    const int64_t tokens = source.samples * context_ + 1;  // tokens that belong to a sample
    const std::string key = Digest128(absl::StrCat(source.file->Identity(), " ", source.format.token_bytes, " ",
                                                   source.format.data_offset, " ", tokens, " ", vocab_));
    if (checked.Contains(key)) continue;
    absl::StatusOr<std::optional<FoundId>> found =
        FindIdNotBelow(*source.file, source.format, tokens, vocab_, threads, cancelled);
    if (!found.ok()) return Annotate(found.status(), source.key);
    if (found->has_value()) return IdTooLarge(source, (*found)->position, (*found)->id);
    bytes += tokens * source.format.token_bytes;
    checked.Add(key);
  }
  return bytes;
}

const Dataset::Source& Dataset::SourceOf(int64_t sample) const {
  ZF_CHECK(sample >= 0 && sample < samples_);
  return *std::prev(std::upper_bound(sources_.begin(), sources_.end(), sample,
                                     [](int64_t value, const Source& source) { return value < source.first_sample; }));
}

absl::Status Dataset::ReadIds(const Source& source, int64_t sample, std::span<int32_t> tokens) const {
  ZF_CHECK(static_cast<int64_t>(tokens.size()) == context_ + 1);
  const int64_t first = (sample - source.first_sample) * context_;
  const int token_bytes = source.format.token_bytes;
  // An int32_t may be written through its unsigned counterpart; ids are compared as unsigned, before any is used.
  std::span<uint32_t> ids(reinterpret_cast<uint32_t*>(tokens.data()), tokens.size());
  const absl::Status read =
      source.file->Read(source.format.data_offset + first * token_bytes,
                        std::as_writable_bytes(tokens).last(tokens.size() * static_cast<size_t>(token_bytes)));
  if (!read.ok()) return Annotate(read, source.key);
  if (token_bytes == 1) WidenInPlace<uint8_t>(ids);
  if (token_bytes == 2) WidenInPlace<uint16_t>(ids);
  const uint32_t known = source.marks ? ~static_cast<uint32_t>(kMarks) : ~uint32_t{0};
  const auto limit = static_cast<uint32_t>(std::min<int64_t>(vocab_, int64_t{1} << 31));
  bool too_large = false;
  for (const uint32_t id : ids) too_large |= (id & known) >= limit;
  if (!too_large) return absl::OkStatus();
  const auto at = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return (id & known) >= limit; });
  return IdTooLarge(source, first + (at - ids.begin()), *at & known);
}

absl::Status Dataset::Read(int64_t sample, std::span<int32_t> tokens) const {
  const Source& source = SourceOf(sample);
  ZF_RETURN_IF_ERROR(ReadIds(source, sample, tokens));
  if (source.marks) {
    for (int32_t& id : tokens) id &= ~kMarks;
  }
  return absl::OkStatus();
}

// A target in another document than its token does not count: the model would predict it from nothing it sees.
void Dataset::Mark(const Source& source, int64_t sample, std::span<const int32_t> ids, const Marked& into) const {
  if (source.marks) {
    for (int64_t t = 0; t < context_; ++t) {
      into.inputs[t] = ids[t] & ~kMarks;
      into.targets[t] = ids[t + 1] < 0 ? -1 : ids[t + 1] & ~kMarks;
    }
  } else {
    std::copy_n(ids.begin(), context_, into.inputs);
    std::copy_n(ids.begin() + 1, context_, into.targets);
  }
  if (!packing_) return;
  const std::vector<int64_t>& starts = source.document_starts;
  const int64_t first = (sample - source.first_sample) * context_;
  auto next = std::upper_bound(starts.begin(), starts.end(), first);
  int32_t start = 0;
  for (int64_t t = 0; t < context_; ++t) {
    into.starts[t] = start;
    const bool in_index = next != starts.end() && *next == first + t + 1;
    const bool at_end_token = source.marks ? (ids[t] & kEndsDocument) != 0 : into.inputs[t] == end_token_;
    const bool ends = starts.empty() ? at_end_token : in_index;
    if (in_index) ++next;
    if (!ends) continue;
    into.targets[t] = -1;
    start = static_cast<int32_t>(t + 1);
  }
}

absl::Status Dataset::ReadBatch(int64_t count, const std::function<int64_t(int64_t)>& sample, int32_t* into) const {
  std::vector<int32_t> ids(context_ + 1);
  const int64_t all = count * context_;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = sample(i);
    const Source& source = SourceOf(number);
    ZF_RETURN_IF_ERROR(ReadIds(source, number, std::span(ids)));
    int32_t* const inputs = into + i * context_;
    Mark(source, number, ids, {inputs, inputs + all, packing_ ? inputs + 2 * all : nullptr});
  }
  return absl::OkStatus();
}

absl::Status Dataset::CountTargets(Source& source) const {
  constexpr int64_t kAtATime = 64;  // samples per claim
  source.counted.resize(source.samples);
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  absl::Mutex mutex;
  absl::Status status;
  const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  RunOnThreads(threads, [&] {
    std::vector<int32_t> ids(context_ + 1), marked(3 * context_);
    int32_t* const inputs = marked.data();
    for (int64_t begin = kAtATime * next++; begin < source.samples && !failed; begin = kAtATime * next++) {
      for (int64_t i = begin; i < std::min(begin + kAtATime, source.samples); ++i) {
        const int64_t sample = source.first_sample + i;
        if (const absl::Status read = ReadIds(source, sample, std::span(ids)); !read.ok()) {
          failed = true;
          absl::MutexLock lock(&mutex);
          status.Update(read);
          return;
        }
        Mark(source, sample, ids, {inputs, inputs + context_, inputs + 2 * context_});
        source.counted[i] = static_cast<int32_t>(
            std::count_if(inputs + context_, inputs + 2 * context_, [](int32_t target) { return target >= 0; }));
      }
    }
  });
  return status;
}

int64_t Dataset::Counted(int64_t sample) const {
  const Source& source = SourceOf(sample);
  return source.counted.empty() ? context_ : source.counted[sample - source.first_sample];
}

int ArraysPerToken(const v1::DataConfig& config) { return config.packing() ? 3 : 2; }

absl::StatusOr<std::unique_ptr<Dataset>> OpenForModel(const v1::DataConfig& trained, const DataPath& path,
                                                      int64_t context, int64_t vocab) {
  // A directory's first file decides its format.
  std::string file_path = path.path;
  if (IsDirectory(path.path)) {
    ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path.path));
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      const std::string candidate = JoinPath(path.path, *name);
      if (name->front() != '.' && FileBytes(candidate).ok() && !absl::EndsWith(candidate, kIndex))
        file_path = candidate;
    }
  }
  v1::DataConfig data = trained;
  data.set_format("auto");
  absl::StatusOr<std::unique_ptr<TokenFile>> file = TokenFile::Open(file_path, /*keep_open=*/false);
  if (file.ok()) {
    absl::StatusOr<std::string> format = FormatForModel(FactsOf(**file, IndexHead(file_path)), trained);
    if (!format.ok()) return Annotate(format.status(), path.key);
    data.set_format(*format);
    const absl::StatusOr<TokenFormat> recognised = RecogniseFormat(FactsOf(**file, IndexHead(file_path)), *format);
    if (recognised.ok() && !recognised->json_lines()) data.clear_loss_on();
  }
  TextTokenizer text(
      data, {"", static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), nullptr, nullptr, std::nullopt});
  return Dataset::Open(data, {path}, context, vocab, text);
}

}  // namespace zerofleet::data
