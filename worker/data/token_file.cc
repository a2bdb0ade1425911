// POSIX reads behind token_file.h.
#include "worker/data/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/data/format.h"

namespace zerofleet::data {
namespace {

// The digest of a file's contents covers its first and last block and some in between.
constexpr int64_t kDigestBlockBytes = 4096, kDigestBlocks = 16;

// Without O_NONBLOCK, opening a pipe would wait for a writer.
constexpr int kForReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

int64_t Nanoseconds(const struct timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

absl::Status ErrnoStatus(const std::string& path, const std::string& what, int error) {
  const std::string message = absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::DataLossError(message);
}

absl::Status Changed(const std::string& path, const std::string& how) {
  return absl::DataLossError(absl::StrCat(path, ": ", how, "; data files must not change while a run reads them"));
}

// A descriptor for one read: the kept one, or one that is opened for it and closed.
class Borrowed {
 public:
  Borrowed(int kept, const std::string& path)
      : kept_(kept >= 0), value_(kept_ ? kept : open(path.c_str(), kForReading)) {}
  ~Borrowed() {
    if (!kept_ && value_ >= 0) close(value_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  int get() const { return value_; }

 private:
  const bool kept_;
  const int value_;
};

// Returns the number of bytes read, fewer than requested at the end of the file; -1 with errno.
int64_t ReadUpTo(int descriptor, int64_t offset, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const size_t most = std::min(into.size() - done, size_t{1} << 30);
    const ssize_t got = pread(descriptor, into.data() + done, most, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

absl::StatusOr<std::string> DigestOfParts(const std::string& path, int descriptor, int64_t bytes) {
  StreamingDigest digest;
  std::byte block[kDigestBlockBytes];
  const int64_t blocks = std::min(kDigestBlocks, (bytes + kDigestBlockBytes - 1) / kDigestBlockBytes);
  const int64_t last = std::max<int64_t>(bytes - kDigestBlockBytes, 0);
  for (int64_t i = 0; i < blocks; ++i) {
    // Blocks are evenly spaced; the order of operations avoids a product of two large numbers.
    const int64_t offset = i + 1 == blocks ? last : last / std::max<int64_t>(blocks - 1, 1) * i;
    const auto size = static_cast<size_t>(std::min(kDigestBlockBytes, bytes - offset));
    const int64_t got = ReadUpTo(descriptor, offset, std::span(block).first(size));
    if (got < 0) return ErrnoStatus(path, "read", errno);
    digest.Update(std::span<const std::byte>(block, static_cast<size_t>(got)));
  }
  return digest.Hex();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DataFilesIn(const std::string& directory) {
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (name.front() == '.') continue;
    const std::string path = JoinPath(directory, name);
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return ErrnoStatus(path, "stat", errno);
    if (S_ISREG(info.st_mode)) files.push_back(path);
  }
  return files;
}

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(const std::string& path, bool keep_open) {
  const int descriptor = open(path.c_str(), kForReading);
  if (descriptor < 0) return ErrnoStatus(path, "open", errno);
  struct stat info;
  const int result = fstat(descriptor, &info);
  std::unique_ptr<TokenFile> file(new TokenFile(path, info));
  file->descriptor_ = descriptor;  // closed with the file from here on
  if (result != 0) return ErrnoStatus(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": not a regular file; must be a file of text or tokens, or a directory of them"));
  }
  file->modified_ns_ = Nanoseconds(info.st_mtim);
  file->head_.resize(static_cast<size_t>(std::min<int64_t>(info.st_size, kFormatHeadBytes)));
  const int64_t got = ReadUpTo(descriptor, 0, std::as_writable_bytes(std::span(file->head_)));
  if (got < 0) return ErrnoStatus(path, "read", errno);
  file->head_.resize(static_cast<size_t>(got));
  ZF_ASSIGN_OR_RETURN(file->digest_, DigestOfParts(path, descriptor, info.st_size));
  if (!keep_open) close(std::exchange(file->descriptor_, -1));
  return file;
}

TokenFile::~TokenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string TokenFile::Identity() const {
  return absl::StrCat(info_.st_dev, " ", info_.st_ino, " ", info_.st_size, " ", Nanoseconds(info_.st_mtim), " ",
                      Nanoseconds(info_.st_ctim), " ", digest_);
}

std::string TokenFile::Contents() const {
  return absl::StrCat(info_.st_size, " ", Nanoseconds(info_.st_mtim), " ", digest_);
}

absl::StatusOr<std::string> TokenFile::DigestOfBeginning(int64_t bytes) const {
  const Borrowed descriptor(descriptor_, path_);
  if (descriptor.get() < 0) return ErrnoStatus(path_, "open again", errno);
  return DigestOfParts(path_, descriptor.get(), std::clamp<int64_t>(bytes, 0, info_.st_size));
}

absl::Status TokenFile::CheckUnchanged(int descriptor) const {
  struct stat now;
  if (fstat(descriptor, &now) != 0) return ErrnoStatus(path_, "stat", errno);
  if (now.st_dev != info_.st_dev || now.st_ino != info_.st_ino) return Changed(path_, "was replaced by another file");
  if (now.st_size != info_.st_size) {
    return Changed(path_, absl::StrCat("had ", info_.st_size, " bytes when it was opened, now has ", now.st_size));
  }
  const int64_t modified_ns = Nanoseconds(now.st_mtim);
  if (modified_ns == modified_ns_.load(std::memory_order_relaxed)) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::string digest, DigestOfParts(path_, descriptor, info_.st_size));
  if (digest != digest_) return Changed(path_, "was rewritten after it was opened");
  modified_ns_.store(modified_ns, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status TokenFile::Read(int64_t offset, std::span<std::byte> into) const {
  const Borrowed descriptor(descriptor_, path_);
  if (descriptor.get() < 0) return ErrnoStatus(path_, "open again", errno);
  ZF_RETURN_IF_ERROR(CheckUnchanged(descriptor.get()));
  const int64_t got = ReadUpTo(descriptor.get(), offset, into);
  if (got < 0) return ErrnoStatus(path_, absl::StrCat("read at byte ", offset), errno);
  if (got < static_cast<int64_t>(into.size())) {
    return Changed(path_,
                   absl::StrCat("ends at byte ", offset + got, ", had ", info_.st_size, " bytes when it was opened"));
  }
  return absl::OkStatus();
}

int64_t TokenFile::SkipHole(int64_t offset) const {
  const Borrowed descriptor(descriptor_, path_);
  const int64_t data = lseek(descriptor.get(), offset, SEEK_DATA);
  if (data >= 0) return data;
  return errno == ENXIO ? bytes() : offset;  // ENXIO: no data after it; otherwise the file system cannot say
}

}  // namespace zerofleet::data
