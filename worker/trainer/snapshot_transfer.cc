// Pieces out of a store and into another; see snapshot_transfer.h.
#include "worker/trainer/snapshot_transfer.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::trainer {

absl::StatusOr<std::optional<v1::ReplicaPiece>> OutgoingSnapshot::Next() {
  if (over_) return std::nullopt;
  v1::ReplicaPiece piece;
  if (!description_) {
    ZF_ASSIGN_OR_RETURN(description_, store_.Describe(shard_));
    *piece.mutable_header() = description_->header;
    return piece;
  }
  const int64_t left = description_->header.bytes() - offset_;
  if (left > 0) {
    const int64_t bytes = std::min(left, kSnapshotPieceBytes);
    ZF_RETURN_IF_ERROR(store_.Read(shard_, offset_, bytes, *piece.mutable_data()));
    offset_ += bytes;
    return piece;
  }
  over_ = true;
  // The digest comes from the rank that took the snapshot, so the receiver detects bytes that have changed since.
  piece.set_xxh3_128(description_->digest);
  return piece;
}

absl::Status ReplicaSink::Begin(const v1::ReplicaHeader& header) {
  ZF_ASSIGN_OR_RETURN(transfer_, store_.BeginReplica(header));
  return absl::OkStatus();
}

absl::Status IncomingSnapshot::Take(const v1::ReplicaPiece& piece) {
  if (piece.has_header()) {
    if (begun_) return absl::InvalidArgumentError("a second header has come");
    begun_ = true;
    return sink_.Begin(piece.header());
  }
  if (!begun_ || complete_) {
    return absl::InvalidArgumentError(complete_ ? "a piece follows the digest" : "the first piece is no header");
  }
  if (piece.has_data()) {
    if (static_cast<int64_t>(piece.data().size()) > kSnapshotPieceBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a piece of ", piece.data().size(), " bytes has come; at most ",
                                                     kSnapshotPieceBytes, " are allowed"));
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span(piece.data()));
    digest_.Update(bytes);
    return sink_.Append(bytes);
  }
  if (piece.xxh3_128() != digest_.Hex()) {
    return absl::DataLossError(
        absl::StrCat("the XXH3-128 of what has come is ", digest_.Hex(), ", another than that of what was sent"));
  }
  ZF_RETURN_IF_ERROR(sink_.End(piece.xxh3_128()));
  complete_ = true;
  return absl::OkStatus();
}

}  // namespace zerofleet::trainer
