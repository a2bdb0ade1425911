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

  // Bytes that it has put at the beginning of `into`: all of it but at the end of the text, where there are fewer.
  // DataLoss, naming the file, for one that changes, cannot be read, or is not compressed as it should be.
  absl::StatusOr<size_t> Read(std::span<char> into);
  // Bytes of the file that have been read, compressed as they are.
  int64_t consumed() const { return consumed_; }

 protected:
  explicit TextReader(const TokenFile& file) : file_(file) {}
  // As Read, but it may put fewer bytes there; none only at the end.
  virtual absl::StatusOr<size_t> ReadSome(std::span<char> into) = 0;
  // The next bytes of the file: as many as there are and fit.
  absl::StatusOr<size_t> ReadFile(std::span<char> into);
  absl::Status Damaged(const char* what) const;

 private:
  const TokenFile& file_;
  int64_t consumed_ = 0;
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TEXT_READER_H_
