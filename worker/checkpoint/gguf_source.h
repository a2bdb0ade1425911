// A model in a GGUF file: its sizes, its weights as fp32 under our names, and its tokenizer.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_SOURCE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_SOURCE_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/weight_source.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

class GgufSource : public WeightSource {
 public:
  // Opens a model of architecture llama, qwen2 or qwen3. DataLoss if the file is malformed, InvalidArgument, naming
  // what is not supported; errors begin with the path.
  static absl::StatusOr<std::unique_ptr<GgufSource>> Open(const std::string& path);

  const v1::ModelConfig& model() const { return model_; }
  // The tokenizer as the files of a Hugging Face directory: a tokenizer.json and a tokenizer_config.json, with the chat
  // template. No files if the tokenizer is not byte-level BPE.
  absl::StatusOr<TokenizerFiles> Tokenizer() const;

  std::vector<std::string> Names() const override;
  bool Has(const std::string& name) const override { return tensors_.contains(name); }
  absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const override;
  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape, std::span<float> into) const override;

 private:
  GgufSource(std::unique_ptr<MappedFile> file, GgufFile header) : file_(std::move(file)), header_(std::move(header)) {}
  absl::Status ReadModel();
  absl::Status NameTensors();
  // Turns the tensor of frequencies' divisors, which is no weight, into the model's scaling.
  absl::Status ReadScaling();

  const std::unique_ptr<MappedFile> file_;
  const GgufFile header_;
  v1::ModelConfig model_;
  bool interleaves_ = false;                          // the file interleaves rows of queries and keys (llama)
  std::map<std::string, const GgufTensor*> tensors_;  // keyed by our names, without the family's prefix
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_SOURCE_H_
