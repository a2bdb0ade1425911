// Token files as a numbered sequence of samples.
//
// A file of n tokens holds floor((n-1)/context) samples; sample i of it is tokens [i*context, (i+1)*context], context+1
// of them, so that targets are inputs shifted by one. Samples are numbered through all files in the order given;
// a sample never crosses from one file into the next. Files are mapped, not read: opening costs no more than its files'
// number. They must not change while a run reads them.
#ifndef ZEROFLEET_WORKER_DATA_DATASET_H_
#define ZEROFLEET_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

class Dataset {
 public:
  // Opens `paths` (data.train or data.validation): files, or directories, which stand for their regular files in
  // sorted order, hidden ones and subdirectories left out. `vocab` is the model's.
  //
  // InvalidArgument for a format or tokenizer this version lacks and for no path at all; NotFound for a missing file;
  // DataLoss, naming the file, its tokens and those needed, for a file without a sample (in a directory only
  // if no file there has one) and for a length that is no whole number of tokens.
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(const v1::DataConfig& config,
                                                       const std::vector<std::string>& paths, int64_t context,
                                                       int64_t vocab);

  int64_t samples() const { return samples_; }
  int64_t context() const { return context_; }

  // Fills `tokens`, of context() + 1 elements, with sample `sample` in [0, samples()). DataLoss, naming file and
  // position, for an id that is not below the vocabulary: none reaches a device. Thread-safe.
  absl::Status Read(int64_t sample, std::span<int32_t> tokens) const;

 private:
  struct TokenFile {
    std::unique_ptr<MappedFile> file;
    int token_bytes;
    int64_t first_sample;
  };

  Dataset(int64_t context, int64_t vocab) : context_(context), vocab_(vocab) {}
  absl::Status AddPath(const std::string& path, const std::string& format);
  // Adds one file; its number of samples may be zero. `tokens` is set to its number of tokens.
  absl::Status AddFile(const std::string& path, const std::string& format, int64_t* tokens);

  int64_t context_;
  int64_t vocab_;
  int64_t samples_ = 0;
  std::vector<TokenFile> files_;  // those with a sample, by first_sample
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DATA_DATASET_H_
