// Rows of one reservation, each at its place; see arena.h.
#include "worker/memory/arena.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet::memory {
namespace {

// The place a row of `bytes` takes; never empty, so that every row has its own address.
int64_t PlaceBytes(int64_t bytes) { return std::max(RoundUp(bytes, kPlaceAlignment), kPlaceAlignment); }

// A row's pieces as they are placed: the last one reaches to the end of the row's place.
std::vector<Piece> PlacedPieces(const MemoryRow& row) {
  if (row.bytes == 0 || row.pieces.empty()) return {{PlaceBytes(row.bytes)}};
  ZF_CHECK(PieceBytes(row.pieces) == row.bytes);
  std::vector<Piece> pieces = row.pieces;
  pieces.back().bytes += PlaceBytes(row.bytes) - row.bytes;
  return pieces;
}

// The places of a space's rows, except late ones, in the plan's order.
std::vector<std::vector<Piece>> PlacedRows(const MemoryPlan& plan, Space space) {
  std::vector<std::vector<Piece>> rows;
  for (const MemoryRow& row : plan.rows) {
    if (row.space == space && !row.late) rows.push_back(PlacedPieces(row));
  }
  return rows;
}

absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveIn(Space space, device::Device& device, int64_t bytes) {
  return space == Space::kDevice ? device.Reserve(bytes) : device.ReserveHost(bytes);
}

}  // namespace

const char* SpaceName(Space space) { return space == Space::kDevice ? "device" : "host"; }

const char* CategoryName(Category category) {
  static constexpr const char* kNames[kCategories] = {"parameters", "gradients", "optimizer", "activations",
                                                      "gathered",   "buffers",   "ema"};
  return kNames[static_cast<int>(category)];
}

int64_t MemoryPlan::Bytes(Space space) const {
  int64_t bytes = 0;
  for (const MemoryRow& row : rows) bytes += row.space == space ? row.bytes : 0;
  return bytes - SharedBytes(space);
}

int64_t MemoryPlan::SharedBytes(Space space) const {
  const std::vector<std::vector<Piece>> placed = PlacedRows(*this, space);
  int64_t bytes = 0;
  for (const std::vector<Piece>& row : placed) bytes += PieceBytes(row);
  return bytes - Place(placed).extent;
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

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const MemoryPlan& plan, Space space, device::Device& device) {
  const Placement placement = Place(PlacedRows(plan, space));
  const int64_t total = placement.extent;
  const MemoryRow* largest = nullptr;
  std::map<std::string, PlacedRow> rows;
  for (auto offset = placement.offsets.begin(); const MemoryRow& row : plan.rows) {
    if (row.space != space) continue;
    ZF_CHECK(row.bytes >= 0);
    bool unique = rows.emplace(row.name, PlacedRow{row, row.late ? 0 : *offset++}).second;
    ZF_CHECK(unique);
    if (row.late) continue;
    if (largest == nullptr || row.bytes > largest->bytes) largest = &row;
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> reservation =
      ReserveIn(space, device, std::max(total, kPlaceAlignment));
  if (!reservation.ok()) {
    return Annotate(reservation.status(), absl::StrCat(SpaceName(space), " memory plan of ", HumanBytes(total),
                                                       " (largest: ", largest == nullptr ? "nothing" : largest->name,
                                                       ", ", HumanBytes(largest == nullptr ? 0 : largest->bytes), ")"));
  }
  return std::unique_ptr<Arena>(new Arena(space, device, *std::move(reservation), std::move(rows)));
}

Arena::Arena(Space space, device::Device& device, std::unique_ptr<device::Reservation> reservation,
             std::map<std::string, PlacedRow> rows)
    : space_(space), device_(device), reservation_(std::move(reservation)), left_(std::move(rows)) {}

Arena::PlacedRow Arena::Claim(const std::string& name, bool late) {
  const auto found = left_.find(name);
  ZF_CHECK(found != left_.end());
  ZF_CHECK(found->second.row.late == late);
  PlacedRow row = std::move(found->second);
  left_.erase(found);
  return row;
}

void Arena::Count(const MemoryRow& row) {
  CategoryUse& use = categories_[static_cast<int>(row.category)];
  use.current += row.bytes;
  use.peak = std::max(use.peak, use.current);
}

std::byte* Arena::Take(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto [row, offset] = Claim(name, /*late=*/false);
  ZF_CHECK(offset + PlaceBytes(row.bytes) <= reservation_->bytes());
  taken_.push_back(PlacedPieces(row));
  taken_at_.push_back(offset);
  Count(row);
  return reservation_->data() + offset;
}

absl::StatusOr<std::shared_ptr<device::Reservation>> Arena::TakeLate(const std::string& name) {
  MemoryRow row;
  {
    absl::MutexLock lock(&mutex_);
    row = Claim(name, /*late=*/true).row;
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> reservation = ReserveIn(space_, device_, PlaceBytes(row.bytes));
  absl::MutexLock lock(&mutex_);
  if (!reservation.ok()) {
    left_.emplace(name, PlacedRow{std::move(row), 0});
    return Annotate(reservation.status(), absl::StrCat(SpaceName(space_), " memory for the ", name));
  }
  Count(row);
  late_.push_back(*std::move(reservation));
  return late_.back();
}

void Arena::KeepLate(const std::string& name, std::shared_ptr<device::Reservation> kept) {
  absl::MutexLock lock(&mutex_);
  const MemoryRow row = Claim(name, /*late=*/true).row;
  ZF_CHECK(kept->bytes() >= row.bytes);
  Count(row);
  late_.push_back(std::move(kept));
}

ArenaFigures Arena::figures() const {
  absl::MutexLock lock(&mutex_);
  ArenaFigures figures;
  figures.reserved = reservation_->bytes();
  const Use use = MostInUse(taken_, taken_at_, figures.reserved);
  figures.allocated = use.bytes;
  figures.largest_free_block = use.largest_gap;
  for (const std::shared_ptr<device::Reservation>& late : late_) {
    figures.reserved += late->bytes();
    figures.allocated += late->bytes();
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

}  // namespace zerofleet::memory
