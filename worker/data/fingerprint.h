// What the files of a run are, in few words: for a checkpoint, so that a run that goes on from it can tell whether it
// reads the same data.
//
// A file is known by its size and the digest of some of its blocks (token_file.h), which opening it has read anyway.
// Its path is told to people and not compared: the same data may lie elsewhere.
#ifndef ZEROFLEET_WORKER_DATA_FINGERPRINT_H_
#define ZEROFLEET_WORKER_DATA_FINGERPRINT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/digest.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::data {

// Bytes of one list of files as a message: what is beyond becomes one entry.
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

// How `now`, the files of `key` (data.train), differ from `before`.
struct DataChange {
  std::string text;       // "data.train: a.txt has 9 bytes, had 8"; empty: not at all
  bool only_grew = true;  // every file that differs begins with what it was before
};

// The digest that file number `file` of `now` would have if it ended after so many bytes.
using DigestOfBeginning = std::function<absl::StatusOr<std::string>(int file, int64_t bytes)>;

DataChange Compare(const std::string& key, const v1::DataFiles& before, const v1::DataFiles& now,
                   const DigestOfBeginning& digest_of_beginning);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_FINGERPRINT_H_
