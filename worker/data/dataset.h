// Token files as a numbered sequence of samples.
//
// A file of n tokens holds floor((n-1)/context) samples; sample i of it is tokens [i*context, (i+1)*context], context+1
// of them, so that targets are inputs shifted by one. Samples are numbered through all files in the order given;
// a sample never crosses from one file into the next. Opening looks at a file's first bytes and some others
// (format.h, token_file.h); the tokens are read when they are asked for.
#ifndef ZEROFLEET_WORKER_DATA_DATASET_H_
#define ZEROFLEET_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/checked_files.h"
#include "worker/data/fingerprint.h"
#include "worker/data/format.h"
#include "worker/data/text_tokens.h"
#include "worker/data/token_file.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::data {

// A path, and who asked for it: a configuration's key or a flag, which errors begin with.
struct DataPath {
  std::string key;  // such as data.train[0]
  std::string path;
};

// The paths of a list of the configuration, data.train or data.validation.
std::vector<DataPath> ConfiguredPaths(const std::string& key,
                                      const google::protobuf::RepeatedPtrField<std::string>& paths);

class Dataset {
 public:
  // Opens `paths`: files, or directories, which stand for their regular files in sorted order; hidden ones,
  // subdirectories and Megatron indices are left out. `vocab` is the model's. `text` makes tokens of text, where it is
  // not one token per byte.
  //
  // InvalidArgument for a format or tokenizer that is not supported and for no path at all; NotFound for a missing
  // file; DataLoss, naming the file, for one that does not hold what the format says, and for one without a sample (in
  // a directory only if no file there has one).
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(const v1::DataConfig& config, const std::vector<DataPath>& paths,
                                                       int64_t context, int64_t vocab, TextTokenizer& text);

  int64_t samples() const { return samples_; }
  int64_t context() const { return context_; }
  bool packing() const { return packing_; }
  // How many targets of a sample count.
  int64_t Counted(int64_t sample) const;
  // How many each of the paths has that it was opened with, in their order: that in which samples are numbered.
  std::span<const int64_t> samples_by_path() const { return samples_by_path_; }

  struct Summary {
    std::vector<std::string> formats;  // by name, each once, in the order of the files
    int64_t files = 0, tokens = 0;
    int64_t documents = 0;  // of text that a tokenizer takes apart, and of Megatron's indices
  };
  Summary Summarise() const;

  // The files that have a sample, in the order of their samples.
  v1::DataFiles Files() const;
  // How they, the files of `key`, differ from those that a run had `before`.
  DataChange ChangeSince(const std::string& key, const v1::DataFiles& before) const;

  // Compares every id of every sample with the vocabulary, and the tokens of a text with their digest, except for files
  // that `checked` remembers, and adds those that pass to it. Returns the bytes that were compared with the vocabulary.
  // DataLoss, naming file, position and id, for the first id that is too large, and for tokens that are damaged;
  // Cancelled once `cancelled` says so.
  absl::StatusOr<int64_t> CheckIds(int threads, CheckedFiles& checked, const std::function<bool()>& cancelled) const;

  // Fills `tokens`, of context() + 1 elements, with sample `sample` in [0, samples()). DataLoss, naming the file, for
  // one that has changed since it was opened, and for an id that is not below the vocabulary: none reaches a device.
  // Thread-safe; allocates nothing.
  absl::Status Read(int64_t sample, std::span<int32_t> tokens) const;
  // Reads samples `sample(0)` to `sample(count - 1)` as a model takes them: inputs(count, context()), then
  // targets(count, context()), which are the inputs shifted by one, or -1 where they do not count; with data.packing
  // then starts(count, context()), the position in the sample at which each token's document starts. `into` holds
  // ArraysPerToken() * count * context() elements. Errors are Read's.
  absl::Status ReadBatch(int64_t count, const std::function<int64_t(int64_t)>& sample, int32_t* into) const;

 private:
  struct Source {
    std::string key;
    std::unique_ptr<TokenFile> file;
    TokenFormat format;
    int64_t first_sample = 0, samples = 0;
    // The text whose tokens `file` holds; null where that is what the user named.
    std::unique_ptr<TokenFile> text;
    std::string text_format;
    DigestBits digest;  // of these tokens
    int64_t documents = 0;
    bool marks = false;                    // ids may have kUncounted and kEndsDocument (tokenize.h)
    std::vector<int64_t> document_starts;  // positions, ascending, where an index tells them
    std::vector<int32_t> counted;          // targets of each sample; empty: all of them

    const TokenFile& named() const { return text == nullptr ? *file : *text; }
  };

  Dataset(int64_t context, int64_t vocab) : context_(context), vocab_(vocab) {}
  struct Opening {
    std::string format;  // data.format
    bool bytes;          // the tokenizer is text::kBytes
    bool answers;        // data.loss_on is assistant
    TextTokenizer& text;
  };
  absl::Status AddPath(const DataPath& path, const Opening& opening);
  absl::Status AddDirectory(const DataPath& path, const Opening& opening);
  // Adds one file; its number of samples may be zero. Returns its number of tokens.
  absl::StatusOr<int64_t> AddFile(const DataPath& path, const Opening& opening, bool in_directory);
  // The ids of a sample of `source` as its file has them.
  absl::Status ReadIds(const Source& source, int64_t sample, std::span<int32_t> ids) const;
  // Makes inputs, targets and, with packing, starts of them.
  struct Marked {
    int32_t *inputs, *targets, *starts;
  };
  void Mark(const Source& source, int64_t sample, std::span<const int32_t> ids, const Marked& into) const;
  absl::Status CountTargets(Source& source) const;
  absl::Status ReadIndex(Source& source) const;
  absl::Status FindEndToken(TextTokenizer& text);
  const Source& SourceOf(int64_t sample) const;
  absl::Status IdTooLarge(const Source& source, int64_t position, uint32_t id) const;

  int64_t context_;
  int64_t vocab_;
  int64_t samples_ = 0;
  bool packing_ = false;
  std::optional<int32_t> end_token_;  // with packing
  std::vector<int64_t> samples_by_path_;
  std::vector<Source> sources_;  // those with a sample, by first_sample
};

// The arrays of a batch: inputs, targets, and with data.packing the starts of documents.
int ArraysPerToken(const v1::DataConfig& config);

// Opens `path` alone, for a model trained on `trained`, in the format that suits both (FormatForModel). What counts is
// what counted in training, but of what can have no answers, a text or a file of tokens, all does. Tokens of text are
// kept in memory.
absl::StatusOr<std::unique_ptr<Dataset>> OpenForModel(const v1::DataConfig& trained, const DataPath& path,
                                                      int64_t context, int64_t vocab);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_DATASET_H_
