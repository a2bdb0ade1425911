// See scratch_file.h.
#include "worker/memory/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet::memory {
namespace {

constexpr size_t kMostAtATime = size_t{1} << 30;
constexpr char kPayload[] = "zerofleet.ScratchFile";

bool IsAligned(int64_t offset, const void* data, size_t bytes) {
  const auto block = static_cast<uint64_t>(ScratchFile::kBlock);
  return (static_cast<uint64_t>(offset) | reinterpret_cast<uintptr_t>(data) | bytes) % block == 0;
}

}  // namespace

bool IsOfScratchFile(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

absl::Status OfScratchFile(absl::Status status) {
  status.SetPayload(kPayload, absl::Cord());
  return status;
}

absl::StatusOr<std::unique_ptr<ScratchFile>> ScratchFile::Create(const std::string& directory, const std::string& name,
                                                                 int64_t bytes) {
  if (const absl::Status made = CreateDirectories(directory); !made.ok()) return OfScratchFile(made);
  std::string path = JoinPath(directory, absl::StrCat(name, "-XXXXXX"));
  bool direct = true;
  int descriptor = mkostemp(path.data(), O_CLOEXEC | O_DIRECT);
  if (descriptor < 0 && errno == EINVAL) {
    unlink(path.c_str());  // some file systems make the file before they refuse
    path.replace(path.size() - 6, 6, "XXXXXX");
    direct = false;
    descriptor = mkostemp(path.data(), O_CLOEXEC);
  }
  if (descriptor < 0) {
    return OfScratchFile(absl::ResourceExhaustedError(absl::StrCat(path, ": cannot create: ", strerror(errno))));
  }
  std::unique_ptr<ScratchFile> file(new ScratchFile(path, descriptor, direct));
  if (unlink(path.c_str()) != 0) return file->Failed("remove the name of", 0, errno);
  if (const int error = TakeRoom(descriptor, bytes); error != 0) {
    return OfScratchFile(absl::ResourceExhaustedError(
        absl::StrCat(path, ": cannot take ", HumanBytes(bytes), " in ", directory, ": ", strerror(error))));
  }
  return file;
}

ScratchFile::~ScratchFile() { close(descriptor_); }

absl::Status ScratchFile::Failed(const char* operation, int64_t offset, int error) const {
  return OfScratchFile(absl::ResourceExhaustedError(
      absl::StrCat(path_, ": cannot ", operation, " it at byte ", offset, ": ", strerror(error))));
}

absl::Status ScratchFile::Write(int64_t offset, std::span<const std::byte> from) {
  ZF_CHECK(IsAligned(offset, from.data(), from.size()));
  while (!from.empty()) {
    const ssize_t written = pwrite(descriptor_, from.data(), std::min(from.size(), kMostAtATime), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", offset, errno);
    from = from.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status ScratchFile::Read(int64_t offset, std::span<std::byte> into) {
  ZF_CHECK(IsAligned(offset, into.data(), into.size()));
  while (!into.empty()) {
    const ssize_t got = pread(descriptor_, into.data(), std::min(into.size(), kMostAtATime), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", offset, errno);
    if (got == 0) {
      return OfScratchFile(absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset, ", too early")));
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::memory
