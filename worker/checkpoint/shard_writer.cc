// Writes header and vectors, and syncs; see shard_writer.h.
#include "worker/checkpoint/shard_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_format.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int64_t kMostUnsyncedBytes = int64_t{256} << 20;

// A file with the digest of what was written to it, and its length.
struct HashedFile {
  std::unique_ptr<DurableFile> file;
  StreamingDigest digest;
  int64_t bytes = 0, synced = 0;

  // Writes in pieces, so that each is hashed while it is in the cache. The bytes are made durable now and then;
  // otherwise the last fsync could take minutes, in which it looks like one that hangs.
  absl::Status Write(std::span<const std::byte> data) {
    while (!data.empty()) {
      std::span<const std::byte> piece = data.first(std::min<size_t>(data.size(), kShardChunkBytes));
      digest.Update(piece);
      ZF_RETURN_IF_ERROR(file->Write(piece));
      bytes += static_cast<int64_t>(piece.size());
      data = data.subspan(piece.size());
      if (bytes - synced < kMostUnsyncedBytes) continue;
      ZF_RETURN_IF_ERROR(file->Sync());
      synced = bytes;
    }
    return absl::OkStatus();
  }
};

int64_t ElementsOf(const std::vector<coordinator::PlacedRange>& ranges) {
  int64_t elements = 0;
  for (const coordinator::PlacedRange& range : ranges) {
    ZF_CHECK(range.elements() > 0);
    ZF_CHECK(range.offset == elements);
    elements += range.elements();
  }
  return elements;
}

absl::Status WriteVector(HashedFile& out, int64_t bytes, const ShardPieces& pieces) {
  for (int64_t left = bytes; left > 0;) {
    ZF_ASSIGN_OR_RETURN(const std::span<const std::byte> piece, pieces());
    const auto size = static_cast<int64_t>(piece.size());
    ZF_CHECK(size > 0);
    ZF_CHECK(size <= left);
    ZF_RETURN_IF_ERROR(out.Write(piece));
    left -= size;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ShardFile> WriteFile(HashedFile& out, const optim::OptimizerRow& optimizer, int64_t elements,
                                        const ShardPieces& pieces) {
  const std::string header = EncodeSafetensorsHeader(ShardTensors(optimizer, elements));
  ZF_RETURN_IF_ERROR(out.Write(std::as_bytes(std::span(header))));
  for (const optim::OptimizerVector& vector : optimizer.vectors) {
    ZF_KILL_POINT("shard/between-vectors");
    ZF_RETURN_IF_ERROR(WriteVector(out, elements * device::DTypeBytes(vector.dtype), pieces));
  }
  ZF_ASSIGN_OR_RETURN(const std::span<const std::byte> rest, pieces());
  ZF_CHECK(rest.empty());
  ZF_KILL_POINT("shard/before-fsync");
  ZF_RETURN_IF_ERROR(out.file->Sync());
  ZF_KILL_POINT("shard/synced");
  v1::ShardFile entry;
  entry.set_bytes(out.bytes);
  entry.set_xxh3_128(out.digest.Hex());
  return entry;
}

}  // namespace

absl::StatusOr<v1::ShardFile> WriteShard(const std::string& partial_dir, int rank,
                                         const std::vector<coordinator::PlacedRange>& stored_ranges,
                                         const optim::OptimizerRow& optimizer, const ShardPieces& pieces) {
  const int64_t elements = ElementsOf(stored_ranges);
  ZF_KILL_POINT("shard/before-directory");
  absl::Status made = CreateDirectory(partial_dir);  // whichever rank comes first creates it
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  const std::string path = JoinPath(partial_dir, ShardFileName(rank));
  HashedFile out;
  ZF_KILL_POINT("shard/before-create");
  ZF_ASSIGN_OR_RETURN(out.file, DurableFile::Create(path));
  ZF_KILL_POINT("shard/created");
  absl::StatusOr<v1::ShardFile> entry = WriteFile(out, optimizer, elements, pieces);
  absl::Status written = entry.status();
  if (written.ok()) written = SyncDirectory(partial_dir);
  if (!written.ok()) {
    // Frees space on a full disk; if even this fails, the coordinator clears the remains of earlier generations.
    RemoveOne(path).IgnoreError();
    return written;
  }
  ZF_KILL_POINT("shard/name-synced");
  entry->set_name(ShardFileName(rank));
  entry->set_rank(rank);
  SetStoredRanges(stored_ranges, &*entry);
  return entry;
}

absl::StatusOr<v1::ShardFile> WriteShard(const std::string& partial_dir, int rank,
                                         const std::vector<coordinator::PlacedRange>& stored_ranges,
                                         const optim::OptimizerRow& optimizer,
                                         const std::vector<std::span<const float>>& vectors) {
  ZF_CHECK(vectors.size() == optimizer.vectors.size());
  const auto elements = static_cast<size_t>(ElementsOf(stored_ranges));
  for (std::span<const float> vector : vectors) ZF_CHECK(vector.size() == elements);
  size_t next = 0;
  return WriteShard(partial_dir, rank, stored_ranges, optimizer, [&]() -> absl::StatusOr<std::span<const std::byte>> {
    return next < vectors.size() ? std::as_bytes(vectors[next++]) : std::span<const std::byte>();
  });
}

}  // namespace zerofleet::checkpoint
