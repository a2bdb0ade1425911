// Listing and comparing; see fingerprint.h.
#include "worker/data/fingerprint.h"

#include <algorithm>
#include <limits>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::data {
namespace {

bool SameContents(const v1::DataFile& a, const v1::DataFile& b) {
  return a.bytes() == b.bytes() && a.sampled_xxh3_128() == b.sampled_xxh3_128();
}

bool SameRest(const v1::DataFiles& a, const v1::DataFiles& b) {
  return a.more_files() == b.more_files() && a.more_bytes() == b.more_bytes() && a.more_xxh3_128() == b.more_xxh3_128();
}

int64_t FilesIn(const v1::DataFiles& files) { return files.files_size() + files.more_files(); }

std::string HowItDiffers(const v1::DataFile& before, const v1::DataFile& now, bool grew) {
  if (grew) return absl::StrCat(now.path(), " has grown from ", before.bytes(), " to ", now.bytes(), " bytes");
  if (before.path() != now.path()) {
    return absl::StrCat(now.path(), " (", now.bytes(), " bytes) is read where ", before.path(), " (", before.bytes(),
                        " bytes) was");
  }
  if (before.bytes() != now.bytes()) {
    return absl::StrCat(now.path(), " has ", now.bytes(), " bytes, had ", before.bytes());
  }
  return absl::StrCat(now.path(), " has other contents in its ", now.bytes(), " bytes");
}

}  // namespace

void FileLister::Add(const std::string& path, int64_t bytes, const std::string& digest) {
  v1::DataFile file;
  file.set_path(absl::CHexEscape(path));  // a name in a directory may be any bytes
  file.set_bytes(bytes);
  file.set_sampled_xxh3_128(digest);
  constexpr int64_t kFraming = 8;  // bytes that frame one file in the list
  listed_bytes_ += static_cast<int64_t>(file.ByteSizeLong()) + kFraming;
  if (listed_bytes_ <= kMostListedBytes) {
    *files_.add_files() = std::move(file);
    return;
  }
  const std::string told = absl::StrCat(bytes, " ", digest, "\n");
  more_.Update(std::as_bytes(std::span(told)));
  files_.set_more_files(files_.more_files() + 1);
  // A file system may report any size for sparse files: the sum stops at the largest number.
  const int64_t room = std::numeric_limits<int64_t>::max() - files_.more_bytes();
  files_.set_more_bytes(files_.more_bytes() + std::min(bytes, room));
}

v1::DataFiles FileLister::Done() {
  if (files_.more_files() > 0) files_.set_more_xxh3_128(more_.Hex());
  return files_;
}

DataChange Compare(const std::string& key, const v1::DataFiles& before, const v1::DataFiles& now,
                   const DigestOfBeginning& digest_of_beginning) {
  DataChange change;
  int64_t differ = 0;
  const int both = std::min(before.files_size(), now.files_size());
  for (int i = 0; i < both; ++i) {
    const v1::DataFile &was = before.files(i), &is = now.files(i);
    if (SameContents(was, is)) continue;
    bool grew = was.path() == is.path() && is.bytes() > was.bytes();
    if (grew) {
      const absl::StatusOr<std::string> beginning = digest_of_beginning(i, was.bytes());
      grew = beginning.ok() && *beginning == was.sampled_xxh3_128();
    }
    change.only_grew = change.only_grew && grew;
    if (++differ == 1) change.text = absl::StrCat(key, ": ", HowItDiffers(was, is, grew));
  }
  if (differ > 1)
    absl::StrAppend(&change.text, ", and ", differ - 1, differ == 2 ? " other file differs" : " other files differ");
  const bool same_rest = FilesIn(before) == FilesIn(now) &&
                         (both < std::max(before.files_size(), now.files_size()) || SameRest(before, now));
  if (same_rest) return change;
  change.only_grew = false;
  const std::string rest =
      FilesIn(before) == FilesIn(now)
          ? absl::StrCat("files after the first ", now.files_size(), " differ")
          : absl::StrCat("there are ", FilesIn(now), FilesIn(now) == 1 ? " file" : " files", ", not ", FilesIn(before));
  absl::StrAppend(&change.text, change.text.empty() ? absl::StrCat(key, ": ") : "; ", rest);
  return change;
}

}  // namespace zerofleet::data
