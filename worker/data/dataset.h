// Token files as a numbered sequence of samples.
//
// A file of n tokens holds floor((n-1)/context) samples; sample i is tokens [i*context, (i+1)*context], context+1 of
// them, so that targets are inputs shifted by one. Samples are numbered through all files in the order given; a sample
// never crosses from one file into the next. Opening looks at a file's first bytes and some others (format.h,
// token_file.h); tokens are read when they are requested.
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

// A path, and the configuration key or flag that named it, with which errors begin.
struct DataPath {
  std::string key;  // such as data.train[0]
  std::string path;
};

// The paths of a list in the configuration, data.train or data.validation.
std::vector<DataPath> ConfiguredPaths(const std::string& key,
                                      const google::protobuf::RepeatedPtrField<std::string>& paths);

class Dataset {
 public:
  // Opens `paths`: files, or directories, which stand for their regular files in sorted order, without hidden files,
  // subdirectories and Megatron indices. `vocab` is the model's vocabulary. `text` tokenizes text where that is not one
  // token per byte.
  //
  // InvalidArgument for an unsupported format or tokenizer and if `paths` is empty; NotFound for a missing file;
  // DataLoss, naming the file, for one that does not hold what the format says, and for one without a sample (in a
  // directory only if no file there has one).
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(const v1::DataConfig& config, const std::vector<DataPath>& paths,
                                                       int64_t context, int64_t vocab, TextTokenizer& text);

  int64_t samples() const { return samples_; }
  int64_t context() const { return context_; }
  bool packing() const { return packing_; }
  // The number of a sample's targets that count.
  int64_t Counted(int64_t sample) const;
  // The number of samples of each path with which the set was opened, in the order of the paths, in which samples are
  // numbered.
  std::span<const int64_t> samples_by_path() const { return samples_by_path_; }

  struct Summary {
    std::vector<std::string> formats;  // names, each once, in the order of the files
    int64_t files = 0, tokens = 0;
    int64_t documents = 0;  // documents in tokenized text and in Megatron's indices
  };
  Summary Summarise() const;

  // The files that have a sample, in the order of their samples.
  v1::DataFiles Files() const;
  // How these files, which `key` names, differ from those that a run had `before`.
  DataChange ChangeSince(const std::string& key, const v1::DataFiles& before) const;

  // Compares every id of every sample with the vocabulary, and the tokens made from a text with their digest. Files
  // that `checked` remembers are skipped, and files that pass are added to it. Returns the bytes that were compared
  // with the vocabulary. DataLoss, naming file, position and id, for the first id that is too large, and for damaged
  // tokens; Cancelled once `cancelled` returns true.
  absl::StatusOr<int64_t> CheckIds(int threads, CheckedFiles& checked, const std::function<bool()>& cancelled) const;

  // Fills `tokens`, which has context() + 1 elements, with sample `sample` in [0, samples()). DataLoss, naming the
  // file, if the file has changed since it was opened or an id is not below the vocabulary: such an id never reaches a
  // device. Thread-safe; allocates nothing.
  absl::Status Read(int64_t sample, std::span<int32_t> tokens) const;
  // Reads samples `sample(0)` to `sample(count - 1)` in the layout that a model takes: inputs(count, context()), then
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
    // The text from which the tokens in `file` were made; null if `file` is what the user named.
    std::unique_ptr<TokenFile> text;
    std::string text_format;
    DigestBits digest;  // digest of the tokens in `file`
    int64_t documents = 0;
    bool marks = false;                    // ids may have kUncounted and kEndsDocument (tokenize.h)
    std::vector<int64_t> document_starts;  // positions, ascending; from a Megatron index
    std::vector<int32_t> counted;          // targets that count, per sample; empty: all count

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
  // Reads the ids of a sample of `source` as its file holds them.
  absl::Status ReadIds(const Source& source, int64_t sample, std::span<int32_t> ids) const;
  // Makes inputs, targets and, with packing, starts of `ids`.
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
  std::optional<int32_t> end_token_;  // set only with packing
  std::vector<int64_t> samples_by_path_;
  std::vector<Source> sources_;  // sources with a sample, by first_sample
};

// The number of arrays in a batch: inputs, targets, and with data.packing the starts of documents.
int ArraysPerToken(const v1::DataConfig& config);

// Opens `path` alone, for a model trained on `trained`, in the format that suits both (FormatForModel). Targets count
// as they did in training; in data that cannot contain answers, a text or a file of tokens, all count. Tokens made from
// text are kept in memory.
absl::StatusOr<std::unique_ptr<Dataset>> OpenForModel(const v1::DataConfig& trained, const DataPath& path,
                                                      int64_t context, int64_t vocab);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_DATASET_H_
