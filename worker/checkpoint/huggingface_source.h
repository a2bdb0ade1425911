// The tensors of a Hugging Face directory, found by our names and read as fp32.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_SOURCE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_SOURCE_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/weight_source.h"
#include "worker/model/families.h"

namespace zerofleet::checkpoint {

class HuggingFaceSource : public WeightSource {
 public:
  // Opens model.safetensors, or the files that model.safetensors.index.json lists. Names lose the format's prefix;
  // buffers are left out. DataLoss, naming the file; NotFound if there is none. `format` is borrowed.
  static absl::StatusOr<HuggingFaceSource> Open(const std::string& directory, const model::HuggingFaceFormat& format);

  // Opens one file of any name.
  static absl::StatusOr<HuggingFaceSource> OpenFile(const std::string& path, const model::HuggingFaceFormat& format);

  std::vector<std::string> Names() const override;
  bool Has(const std::string& name) const override { return tensors_.contains(name); }
  // Reads F32, BF16 and F16.
  absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const override;
  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape, std::span<float> into) const override;

 private:
  struct Located {
    const MappedFile* file;
    SafetensorsTensor tensor;
    int64_t data_begin;
  };

  HuggingFaceSource(std::string directory, const model::HuggingFaceFormat& format)
      : directory_(std::move(directory)), format_(format) {}
  absl::Status AddFile(const std::string& path);

  std::string directory_;
  const model::HuggingFaceFormat& format_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, Located> tensors_;
};

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_SOURCE_H_
