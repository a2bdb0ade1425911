// First-fit pieces of one reservation; see arena.h.
#include "worker/memory/arena.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet {
namespace {

constexpr int64_t kAlignment = 64;

// The place a row of `bytes` takes; never empty, so that every piece has an address of its own.
int64_t PlaceBytes(int64_t bytes) { return std::max(RoundUp(bytes, kAlignment), kAlignment); }

}  // namespace

const char* SpaceName(Space space) { return space == Space::kDevice ? "device" : "host"; }

const char* CategoryName(Category category) {
  static constexpr const char* kNames[kCategories] = {"parameters", "gradients", "optimizer",
                                                      "activations", "gathered", "buffers"};
  return kNames[static_cast<int>(category)];
}

int64_t MemoryPlan::Bytes(Space space) const {
  int64_t bytes = 0;
  for (const MemoryRow& row : rows) bytes += row.space == space ? row.bytes : 0;
  return bytes;
}

int64_t MemoryPlan::Bytes(Space space, Category category) const {
  int64_t bytes = 0;
  for (const MemoryRow& row : rows) bytes += row.space == space && row.category == category ? row.bytes : 0;
  return bytes;
}

double ArenaFigures::FragmentationRatio() const {
  int64_t free = reserved - allocated;
  return free <= 0 ? 0.0 : 1.0 - static_cast<double>(largest_free_block) / static_cast<double>(free);
}

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const MemoryPlan& plan, Space space, Device& device) {
  int64_t total = 0;
  const MemoryRow* largest = nullptr;
  std::map<std::string, Piece> pieces;
  for (const MemoryRow& row : plan.rows) {
    if (row.space != space) continue;
    ZF_CHECK(row.bytes >= 0);
    bool unique = pieces.emplace(row.name, Piece{row}).second;
    ZF_CHECK(unique);
    total += PlaceBytes(row.bytes);
    if (largest == nullptr || row.bytes > largest->bytes) largest = &row;
  }
  absl::StatusOr<std::unique_ptr<Reservation>> reservation = 
      space == Space::kDevice ? device.Reserve(std::max(total, kAlignment)) : device.ReserveHost(std::max(total, kAlignment));
  if (!reservation.ok()) {
    return Annotate(reservation.status(),
                    absl::StrCat(SpaceName(space), " memory plan of ", HumanBytes(total), " (largest: ",
                                 largest == nullptr ? "nothing" : largest->name, ", ",
                                 HumanBytes(largest == nullptr ? 0 : largest->bytes), ")"));
  }
  return std::unique_ptr<Arena>(new Arena(*std::move(reservation), std::move(pieces)));
}

Arena::Arena(std::unique_ptr<Reservation> reservation, std::map<std::string, Piece> pieces)
    : reservation_(std::move(reservation)), pieces_(std::move(pieces)) {
  free_[0] = reservation_->bytes();
}

std::byte* Arena::Take(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  auto found = pieces_.find(name);
  ZF_CHECK(found != pieces_.end());
  Piece& piece = found->second;
  ZF_CHECK(piece.offset == -1);
  int64_t bytes = PlaceBytes(piece.row.bytes);
  auto place = std::find_if(free_.begin(), free_.end(), [&](const auto& block) { return block.second >= bytes; });
  ZF_CHECK(place != free_.end());
  auto [offset, available] = *place;
  free_.erase(place);
  if (available > bytes) free_[offset + bytes] = available - bytes;
  piece.offset = offset;
  CategoryUse& use = categories_[static_cast<int>(piece.row.category)];
  use.current += piece.row.bytes;
  use.peak = std::max(use.peak, use.current);
  return reservation_->data() + offset;
}

void Arena::Give(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  auto found = pieces_.find(name);
  ZF_CHECK(found != pieces_.end());
  Piece& piece = found->second;
  ZF_CHECK(piece.offset >= 0);
  int64_t begin = piece.offset, end = begin + PlaceBytes(piece.row.bytes);
  auto after = free_.find(end);
  if (after != free_.end()) {
    end += after->second;
    free_.erase(after);
  }
  auto at = free_.lower_bound(begin);
  if (at != free_.begin() && std::prev(at)->first + std::prev(at)->second == begin) {
    begin = std::prev(at)->first;
  }
  free_[begin] = end - begin;
  piece.offset = -1;
  categories_[static_cast<int>(piece.row.category)].current -= piece.row.bytes;
}

ArenaFigures Arena::figures() const {
  absl::MutexLock lock(&mutex_);
  ArenaFigures figures;
  figures.reserved = reservation_->bytes();
  figures.allocated = figures.reserved;
  for (const auto& [offset, bytes] : free_) {
    figures.allocated -= bytes;
    figures.largest_free_block = std::max(figures.largest_free_block, bytes);
  }
  figures.categories = categories_;
  return figures;
}

int64_t PeakResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  long long kibibytes = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %lld kB", &kibibytes) == 1) break;
  }
  std::fclose(file);
  return static_cast<int64_t>(kibibytes) * 1024;
}

}  // namespace zerofleet
