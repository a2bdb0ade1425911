// The text of a file, decompressed as it is read, in constant memory.
#ifndef ZEROFLEET_WORKER_DATA_TEXT_READER_H_
#define ZEROFLEET_WORKER_DATA_TEXT_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "worker/data/format.h"
#include "worker/data/token_file.h"

namespace zerofleet::data {

class TextReader {
 public:
  // `file` must outlive it.
  static std::unique_ptr<TextReader> Open(const TokenFile& file, Compression compression);
  virtual ~TextReader() = default;

  // Fills `into` and returns the number of bytes, which is smaller than its size only at the end of the text. DataLoss,
  // naming the file, if the file changes, cannot be read, or is not compressed as it should be.
  absl::StatusOr<size_t> Read(std::span<char> into);
  // Bytes of the file that have been read, before decompression.
  int64_t consumed() const { return consumed_; }

 protected:
  explicit TextReader(const TokenFile& file) : file_(file) {}
  // Like Read, but may return fewer bytes anywhere; returns 0 only at the end.
  virtual absl::StatusOr<size_t> ReadSome(std::span<char> into) = 0;
  // Reads the next bytes of the file, as many as there are and as fit.
  absl::StatusOr<size_t> ReadFile(std::span<char> into);
  absl::Status Damaged(const char* what) const;

 private:
  const TokenFile& file_;
  int64_t consumed_ = 0;
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TEXT_READER_H_
