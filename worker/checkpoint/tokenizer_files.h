// The files of a run's tokenizer, which its checkpoints carry, so that a trained model can be used with nothing else.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_
#define ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

struct TokenizerFile {
  std::string name;  // without a directory
  std::string contents;
};
using TokenizerFiles = std::vector<TokenizerFile>;

// Whether a checkpoint may hold a file of a tokenizer under this name.
bool IsTokenizerFileName(const std::string& name);

// The files of `tokenizer`, a value of data.tokenizer; none for text::kBytes. The file that makes the tokenizer comes
// first, under a name of text::kTokenizerFiles. Errors name the file.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& tokenizer);

// Sets the description of the tokenizer in `manifest`.
void DescribeTokenizer(const TokenizerFiles& files, v1::CheckpointManifest* manifest);

// Writes the files into `dir`, durably, and replaces those that a failed attempt has left.
absl::Status WriteTokenizerFiles(const std::string& dir, const TokenizerFiles& files);

// DataLoss, naming the file, unless `dir` holds the tokenizer's files that the manifest describes.
absl::Status VerifyTokenizerFiles(const std::string& dir, const v1::CheckpointManifest& manifest);

// The value of data.tokenizer for a reader of the checkpoint: the step directory if it carries a tokenizer, else
// text::kBytes.
std::string TokenizerOf(const std::string& step_dir, const v1::CheckpointManifest& manifest);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_
