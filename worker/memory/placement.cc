// First fit of rigid buffers over bytes and phases; see placement.h.
#include "worker/memory/placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/units.h"

namespace zerofleet::memory {
namespace {

constexpr std::ptrdiff_t kMostTried = 4;  // as many buffers of several pieces are tried in every order

bool InEveryPhase(const std::vector<Piece>& buffer) {
  return std::all_of(buffer.begin(), buffer.end(),
                     [](const Piece& piece) { return piece.first == 0 && piece.last == Piece::kLastPhase; });
}

bool Together(const Piece& a, const Piece& b) { return a.first <= b.last && b.first <= a.last; }

// The first place from `from` on at which no piece of `buffer` meets one of `other`, which is at `at`. A pair of pieces
// that meets does so at every place up to the end of the piece of `other`; so the farthest such end is the next place
// to try, and no place before it is free.
int64_t FreeOf(const std::vector<Piece>& buffer, int64_t from, const std::vector<Piece>& other, int64_t at) {
  for (;;) {
    int64_t next = from, begin = from, other_begin = at;
    for (size_t i = 0, j = 0; i < buffer.size() && j < other.size();) {
      const int64_t end = begin + buffer[i].bytes, other_end = other_begin + other[j].bytes;
      const bool meet = begin < other_end && other_begin < end && Together(buffer[i], other[j]);
      if (meet) next = std::max(next, from + other_end - begin);
      if (end <= other_end) {
        begin = end;
        ++i;
      } else {
        other_begin = other_end;
        ++j;
      }
    }
    if (next == from) return from;
    from = RoundUp(next, kPlaceAlignment);
  }
}

Placement PlaceInOrder(const std::vector<std::vector<Piece>>& buffers, const std::vector<size_t>& order) {
  Placement placement;
  placement.offsets.resize(buffers.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<Piece>& buffer = buffers[order[i]];
    int64_t place = 0;
    // Tries all buffers again after one of them has moved this one.
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const int64_t free = FreeOf(buffer, place, buffers[order[j]], placement.offsets[order[j]]);
        moved = moved || free != place;
        place = free;
      }
    }
    placement.offsets[order[i]] = place;
    placement.extent = std::max(placement.extent, place + PieceBytes(buffer));
  }
  return placement;
}

}  // namespace

int64_t PieceBytes(const std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

Placement Place(const std::vector<std::vector<Piece>>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](size_t i) { return InEveryPhase(buffers[i]) ? 0 : buffers[i].size() > 1 ? 1 : 2; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (rank(a) != rank(b) || rank(a) == 0) return rank(a) < rank(b);
    return PieceBytes(buffers[a]) > PieceBytes(buffers[b]);
  });
  const auto first = std::find_if(order.begin(), order.end(), [&](size_t i) { return rank(i) > 0; }),
             last = std::find_if(order.begin(), order.end(), [&](size_t i) { return rank(i) > 1; });
  Placement best = PlaceInOrder(buffers, order);
  if (last - first > kMostTried) return best;
  std::vector<size_t> tried(first, last);
  std::sort(tried.begin(), tried.end());
  do {
    std::copy(tried.begin(), tried.end(), first);
    Placement placement = PlaceInOrder(buffers, order);
    if (placement.extent < best.extent) best = std::move(placement);
  } while (std::next_permutation(tried.begin(), tried.end()));
  return best;
}

Use MostInUse(const std::vector<std::vector<Piece>>& buffers, const std::vector<int64_t>& offsets, int64_t extent) {
  // The bytes in use grow only where a piece comes into use, so the maximum is at one of these.
  std::vector<std::pair<int64_t, int64_t>> changes;  // phase, bytes
  for (const std::vector<Piece>& buffer : buffers) {
    for (const Piece& piece : buffer) {
      changes.emplace_back(piece.first, piece.bytes);
      changes.emplace_back(int64_t{piece.last} + 1, -piece.bytes);
    }
  }
  std::sort(changes.begin(), changes.end());  // what ends before a phase is sorted before what begins in it
  Use use;
  int64_t now = 0, busiest = 0;
  for (const auto& [phase, bytes] : changes) {
    now += bytes;
    if (now <= use.bytes) continue;
    use.bytes = now;
    busiest = phase;
  }
  std::vector<std::pair<int64_t, int64_t>> in_use = {{extent, extent}};  // from, to
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t begin = offsets[i];
    for (const Piece& piece : buffers[i]) {
      if (piece.first <= busiest && busiest <= piece.last) in_use.emplace_back(begin, begin + piece.bytes);
      begin += piece.bytes;
    }
  }
  std::sort(in_use.begin(), in_use.end());
  int64_t end = 0;
  for (const auto& [from, to] : in_use) {
    use.largest_gap = std::max(use.largest_gap, from - end);
    end = std::max(end, to);
  }
  return use;
}

}  // namespace zerofleet::memory
