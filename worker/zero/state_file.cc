// Three tiles in turn; see state_file.h.
#include "worker/zero/state_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet::zero {
namespace {

using memory::ScratchFile;

constexpr const char* kStagesRow = "state tiles";

int64_t InBlocks(int64_t bytes) { return RoundUp(bytes, ScratchFile::kBlock); }

// Bytes of all vectors of `elements` elements, each in blocks of its own.
int64_t TileBytes(const optim::OptimizerRow& optimizer, int64_t elements) {
  int64_t bytes = 0;
  for (const optim::OptimizerVector& vector : optimizer.vectors) {
    bytes += InBlocks(elements * device::DTypeBytes(vector.dtype));
  }
  return bytes;
}

int64_t MostPieceBytes(const ZeroLayout& layout) {
  int64_t most = 0;
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    most = std::max(most, InBlocks(TileElements(layout) * device::DTypeBytes(vector.dtype)));
  }
  return most;
}

DigestBits DigestOf(std::span<const std::byte> bytes) {
  StreamingDigest digest;
  digest.Update(bytes);
  return digest.Bits();
}

std::string HexOf(const DigestBits& bits) { return absl::StrFormat("%016x%016x", bits.high, bits.low); }

}  // namespace

std::vector<memory::MemoryRow> StateFile::Rows(const ZeroLayout& layout) {
  if (!layout.states_in_file()) return {};
  const int64_t tile = TileBytes(layout.optimizer(), TileElements(layout));
  // One block more, so that the first tile can begin at a block.
  const int64_t bytes = kStages * tile + MostPieceBytes(layout) + ScratchFile::kBlock;
  return {{memory::Space::kHost, memory::Category::kBuffers, kStagesRow, bytes}};
}

int64_t StateFile::FileBytes(const ZeroLayout& layout) {
  int64_t bytes = 0;
  for (const StateTile& tile : StateTiles(layout)) bytes += TileBytes(layout.optimizer(), tile.count);
  return std::max(bytes, ScratchFile::kBlock);
}

StateFile::StateFile(const ZeroLayout& layout, ScratchFile& file, memory::Arena& host_arena)
    : optimizer_(layout.optimizer()),
      tiles_(StateTiles(layout)),
      file_(file),
      digests_(tiles_.size() * layout.optimizer().vectors.size()) {
  int64_t offset = 0;
  for (const StateTile& tile : tiles_) {
    file_offset_.push_back(offset);
    offset += TileBytes(optimizer_, tile.count);
  }
  std::byte* memory = host_arena.Take(kStagesRow);
  memory += InBlocks(static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory))) -
            static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory));
  for (Stage& stage : stages_) {
    stage.memory = memory;
    memory += TileBytes(optimizer_, TileElements(layout));
  }
  bounce_ = memory;
}

optim::StateTensors StateFile::Pieces(size_t tile, std::byte* memory) const {
  optim::StateTensors pieces;
  for (size_t v = 0; v < optimizer_.vectors.size(); ++v) {
    pieces.push_back({memory, optimizer_.vectors[v].dtype});
    memory += PieceBytes(v, tile);
  }
  return pieces;
}

int64_t StateFile::PieceBytes(size_t vector, size_t tile) const {
  return InBlocks(tiles_[tile].count * device::DTypeBytes(optimizer_.vectors[vector].dtype));
}

void StateFile::Post(Stage& stage, absl::Status (StateFile::*piece)(size_t tile, size_t vector, std::byte* memory)) {
  stage.job = jobs_.Post([this, piece, tile = stage.tile, vectors = stage.vectors, memory = stage.memory] {
    const optim::StateTensors pieces = Pieces(tile, memory);
    for (size_t v = 0; v < pieces.size(); ++v) {
      if ((vectors >> v & 1) == 0) continue;
      ZF_RETURN_IF_ERROR((this->*piece)(tile, v, static_cast<std::byte*>(pieces[v].data)));
    }
    return absl::OkStatus();
  });
}

// The queue runs it after the write of the tile that had this memory before.
void StateFile::PostRead(size_t tile, Vectors vectors) {
  Stage& stage = StageOf(tile);
  if (stage.use == Stage::Use::kRead && stage.tile == tile && stage.vectors == vectors) return;
  ZF_CHECK(stage.use == Stage::Use::kFree);
  stage.use = Stage::Use::kRead;
  stage.tile = tile;
  stage.vectors = vectors;
  Post(stage, &StateFile::ReadPiece);
}

absl::StatusOr<optim::StateTensors> StateFile::Open(size_t tile, Vectors vectors, bool reads_on) {
  Stage& stage = StageOf(tile);
  PostRead(tile, vectors);
  if (reads_on && tile + 1 < tiles_.size()) PostRead(tile + 1, vectors);
  ZF_RETURN_IF_ERROR(jobs_.Await(stage.job));
  stage.use = Stage::Use::kOpen;
  return Pieces(tile, stage.memory);
}

absl::StatusOr<optim::StateTensors> StateFile::OpenToFill(size_t tile) {
  Stage& stage = StageOf(tile);
  ZF_CHECK(stage.use == Stage::Use::kFree);
  ZF_RETURN_IF_ERROR(jobs_.Await(stage.job));
  stage.use = Stage::Use::kOpen;
  stage.tile = tile;
  stage.vectors = kAllVectors;
  return Pieces(tile, stage.memory);
}

void StateFile::Close(size_t tile, bool changed) {
  Stage& stage = StageOf(tile);
  ZF_CHECK(stage.use == Stage::Use::kOpen);
  ZF_CHECK(stage.tile == tile);
  stage.use = Stage::Use::kFree;
  if (changed) Post(stage, &StateFile::WritePiece);
}

absl::Status StateFile::ReadPiece(size_t tile, size_t vector, std::byte* to) {
  const int64_t bytes = PieceBytes(vector, tile);
  const std::optional<DigestBits>& wanted = digests_[tile * optimizer_.vectors.size() + vector];
  if (!wanted) {
    std::memset(to, 0, static_cast<size_t>(bytes));  // nothing has been written there
    return absl::OkStatus();
  }
  int64_t offset = file_offset_[tile];
  for (size_t v = 0; v < vector; ++v) offset += PieceBytes(v, tile);
  const std::span<std::byte> piece(to, static_cast<size_t>(bytes));
  ZF_RETURN_IF_ERROR(file_.Read(offset, piece));
  read_ += bytes;
  const DigestBits found = DigestOf(piece);
  if (found == *wanted) return absl::OkStatus();
  return memory::OfScratchFile(absl::DataLossError(absl::StrCat(
      file_.path(), ": the ", bytes, " bytes at ", offset, ", of ", optimizer_.vectors[vector].name,
      ", are not those that were written: their XXH3-128 is ", HexOf(found), ", it was ", HexOf(*wanted))));
}

absl::Status StateFile::WritePiece(size_t tile, size_t vector, std::byte* from) {
  const int64_t bytes = PieceBytes(vector, tile);
  const int64_t used = tiles_[tile].count * device::DTypeBytes(optimizer_.vectors[vector].dtype);
  std::memset(from + used, 0, static_cast<size_t>(bytes - used));
  int64_t offset = file_offset_[tile];
  for (size_t v = 0; v < vector; ++v) offset += PieceBytes(v, tile);
  const std::span<const std::byte> piece(from, static_cast<size_t>(bytes));
  digests_[tile * optimizer_.vectors.size() + vector] = DigestOf(piece);
  ZF_RETURN_IF_ERROR(file_.Write(offset, piece));
  written_ += bytes;
  return absl::OkStatus();
}

absl::Status StateFile::OnTilesOf(int64_t offset, int64_t elements, const Visit& visit) {
  return jobs_.Await(jobs_.Post([&] {
    const auto ends_after = [](int64_t at, const StateTile& tile) { return at < tile.state_offset + tile.count; };
    auto tile = std::upper_bound(tiles_.begin(), tiles_.end(), offset, ends_after);
    for (; tile != tiles_.end() && tile->state_offset < offset + elements; ++tile) {
      const int64_t begin = std::max(tile->state_offset, offset);
      const int64_t end = std::min(tile->state_offset + tile->count, offset + elements);
      ZF_RETURN_IF_ERROR(
          visit(static_cast<size_t>(tile - tiles_.begin()), begin - tile->state_offset, end - begin, begin - offset));
    }
    return absl::OkStatus();
  }));
}

absl::Status StateFile::CopyOut(size_t vector, int64_t offset, int64_t elements, std::byte* to) {
  const int64_t element = device::DTypeBytes(optimizer_.vectors[vector].dtype);
  return OnTilesOf(offset, elements, [&](size_t tile, int64_t first, int64_t count, int64_t done) {
    ZF_RETURN_IF_ERROR(ReadPiece(tile, vector, bounce_));
    std::memcpy(to + done * element, bounce_ + first * element, static_cast<size_t>(count * element));
    return absl::OkStatus();
  });
}

absl::Status StateFile::CopyIn(size_t vector, int64_t offset, int64_t elements, const std::byte* from) {
  const int64_t element = device::DTypeBytes(optimizer_.vectors[vector].dtype);
  return OnTilesOf(offset, elements, [&](size_t tile, int64_t first, int64_t count, int64_t done) {
    if (count < tiles_[tile].count) ZF_RETURN_IF_ERROR(ReadPiece(tile, vector, bounce_));
    std::memcpy(bounce_ + first * element, from + done * element, static_cast<size_t>(count * element));
    return WritePiece(tile, vector, bounce_);
  });
}

}  // namespace zerofleet::zero
