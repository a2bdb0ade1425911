// The files of a run's tokenizer, which its checkpoints carry: what was trained can be used where they alone are.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_
#define ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

struct TokenizerFile {
  std::string name;  // no directory
  std::string contents;
};
using TokenizerFiles = std::vector<TokenizerFile>;

// Whether a checkpoint may hold a file of a tokenizer under this name.
bool IsTokenizerFileName(const std::string& name);

// The files of `tokenizer`, a value of data.tokenizer; none of text::kBytes. What makes it comes
// first, under a name of text::kTokenizerFiles. Errors name the file.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& tokenizer);

// Replaces what `manifest` says of its tokenizer.
void DescribeTokenizer(const TokenizerFiles& files, v1::CheckpointManifest* manifest);

// Writes the files into `dir`, durably, over what a try that failed has left.
absl::Status WriteTokenizerFiles(const std::string& dir, const TokenizerFiles& files);

// DataLoss, naming the file, unless `dir` holds what the manifest says of its tokenizer.
absl::Status VerifyTokenizerFiles(const std::string& dir, const v1::CheckpointManifest& manifest);

// What data.tokenizer is for who reads the checkpoint: the step directory if it carries one, else text::kBytes.
std::string TokenizerOf(const std::string& step_dir, const v1::CheckpointManifest& manifest);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_TOKENIZER_FILES_H_
