// A short description of a run's files, for a checkpoint, so that a run that continues from it can detect whether it
// reads the same data.
//
// A file is identified by its size and the digest of some of its blocks (token_file.h), which opening the file reads
// anyway. Its path is shown to people and not compared: the same data may lie elsewhere.
#ifndef ZEROFLEET_WORKER_DATA_FINGERPRINT_H_
#define ZEROFLEET_WORKER_DATA_FINGERPRINT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/digest.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::data {

// The most bytes of one list of files as a message; files beyond it are summed up in one entry.
inline constexpr int64_t kMostListedBytes = 96 << 10;

// Lists files one after another.
class FileLister {
 public:
  void Add(const std::string& path, int64_t bytes, const std::string& digest);
  v1::DataFiles Done();

 private:
  v1::DataFiles files_;
  int64_t listed_bytes_ = 0;
  StreamingDigest more_;
};

// How a list of files differs from an earlier one.
struct DataChange {
  std::string text;       // "data.train: a.txt has 9 bytes, had 8"; empty if nothing differs
  bool only_grew = true;  // every file that differs begins with its earlier contents
};

// The digest that file number `file` of `now` would have if it ended after `bytes` bytes.
using DigestOfBeginning = std::function<absl::StatusOr<std::string>(int file, int64_t bytes)>;

DataChange Compare(const std::string& key, const v1::DataFiles& before, const v1::DataFiles& now,
                   const DigestOfBeginning& digest_of_beginning);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_FINGERPRINT_H_
