// The file is one table, mapped by its writer. A reader may see a row while it is being updated; the figures are then
// off by part of one call.
#include "worker/device/profile/op_profile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet::device {
namespace {

constexpr size_t kProfileRows = 64;
constexpr char kProfileMagic[8] = {'z', 'f', 'o', 'p', 's', '0', '0', '1'};

}  // namespace

struct OpProfile::Table {
  char magic[8];
  struct Row {
    char name[32];
    OpFigures figures;
  } rows[kProfileRows];
};

absl::StatusOr<std::unique_ptr<OpProfile>> OpProfile::Create(const std::string& path) {
  const auto failed = [&] { return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno))); };
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return failed();
  void* mapping = MAP_FAILED;
  if (ftruncate(file, sizeof(Table)) == 0) {
    mapping = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapping == MAP_FAILED) {
    const absl::Status status = failed();
    close(file);
    return status;
  }
  close(file);
  auto* const table = new (mapping) Table();
  std::memcpy(table->magic, kProfileMagic, sizeof kProfileMagic);
  return std::unique_ptr<OpProfile>(new OpProfile(table));
}

OpProfile::~OpProfile() { munmap(table_, sizeof(Table)); }

void OpProfile::Add(std::string_view op, const OpCall& call) {
  absl::MutexLock lock(&mutex_);
  size_t row = 0;
  while (row + 1 < kProfileRows && table_->rows[row].name[0] != 0 && op != table_->rows[row].name) ++row;
  Table::Row& found = table_->rows[row];
  if (found.name[0] == 0) std::memcpy(found.name, op.data(), std::min(op.size(), sizeof(found.name) - 1));
  found.figures.calls++;
  found.figures.seconds += call.seconds;
  found.figures.flops += call.flops;
  found.figures.bytes += call.bytes;
}

absl::StatusOr<std::map<std::string, OpFigures>> OpProfile::Read(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(const std::string bytes, ReadSmallFile(path, 1 << 20));
  Table table;
  if (bytes.size() != sizeof table || std::memcmp(bytes.data(), kProfileMagic, sizeof kProfileMagic) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a profile of ops"));
  }
  std::memcpy(static_cast<void*>(&table), bytes.data(), sizeof table);
  std::map<std::string, OpFigures> figures;
  for (Table::Row& row : table.rows) {
    row.name[sizeof(row.name) - 1] = 0;
    if (row.name[0] != 0) figures[row.name] = row.figures;
  }
  return figures;
}

}  // namespace zerofleet::device
