// Counts, lengths, offsets and bounds, each checked against what precedes it; see megatron_index.h.
#include "worker/data/megatron_index.h"

#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::data {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9), kFairseqMagic("TNTIDX\0\0", 8);
constexpr size_t kIndexTypeAt = 17, kIndexHeaderBytes = 34;
constexpr int64_t kSequenceBytes = 4 + 8;  // a length and an offset

absl::Status Damaged(const TokenFile& index, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat(index.path(), ": a Megatron index that ", what, "; copy or convert it again"));
}

template <typename T>
absl::StatusOr<std::vector<T>> ReadArray(const TokenFile& index, int64_t offset, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  ZF_RETURN_IF_ERROR(index.Read(offset, std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace

bool IsMegatronIndex(std::string_view head) {
  return head.substr(0, kIndexMagic.size()) == kIndexMagic || head.substr(0, kFairseqMagic.size()) == kFairseqMagic;
}

int MegatronTokenBytes(std::string_view head) {
  if (head.substr(0, kIndexMagic.size()) != kIndexMagic || head.size() <= kIndexTypeAt) return 0;
  constexpr char kInt32 = 4, kUint16 = 8;
  const char type = head[kIndexTypeAt];
  return type == kUint16 ? 2 : type == kInt32 ? 4 : 0;
}

absl::StatusOr<MegatronIndex> ReadMegatronIndex(const TokenFile& index, int64_t data_bytes) {
  const std::string& head = index.head();
  if (head.size() < kIndexHeaderBytes) return Damaged(index, "is cut short");
  uint64_t version, counts[2];
  std::memcpy(&version, head.data() + kIndexMagic.size(), sizeof version);
  std::memcpy(counts, head.data() + kIndexTypeAt + 1, sizeof counts);
  if (version != 1) return Damaged(index, absl::StrCat("is of version ", version, ", which is not supported"));
  // A count larger than the file must not be multiplied.
  const auto bytes = static_cast<uint64_t>(index.bytes());
  if (counts[0] > bytes || counts[1] > bytes) return Damaged(index, "has fewer entries than it says");
  const auto sequences = static_cast<int64_t>(counts[0]), bounds = static_cast<int64_t>(counts[1]);
  constexpr auto kHeader = static_cast<int64_t>(kIndexHeaderBytes);
  const int64_t end = kHeader + sequences * kSequenceBytes + bounds * 8;
  if (index.bytes() != end && index.bytes() != end + sequences) {
    return Damaged(index, absl::StrCat("says that it has ", sequences, " sequences and ", bounds, " bounds, so ", end,
                                       " bytes, but has ", index.bytes()));
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<int32_t> lengths, ReadArray<int32_t>(index, kHeader, sequences));
  ZF_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                      ReadArray<int64_t>(index, kHeader + 4 * sequences, sequences));
  ZF_ASSIGN_OR_RETURN(const std::vector<int64_t> documents,
                      ReadArray<int64_t>(index, kHeader + kSequenceBytes * sequences, bounds));
  const int64_t token_bytes = MegatronTokenBytes(head);
  std::vector<int64_t> firsts = {0};  // each sequence's first token, and the end of the last sequence
  for (int64_t i = 0; i < sequences; ++i) {
    if (lengths[i] < 0) return Damaged(index, absl::StrCat("has ", lengths[i], " tokens in sequence ", i));
    if (offsets[i] != firsts.back() * token_bytes) {
      return Damaged(index,
                     absl::StrCat("has sequence ", i, " at byte ", offsets[i], ", not behind the one before it"));
    }
    firsts.push_back(firsts.back() + lengths[i]);
  }
  if (firsts.back() * token_bytes != data_bytes) {
    return Damaged(index,
                   absl::StrCat("describes ", firsts.back() * token_bytes, " bytes, and its .bin has ", data_bytes));
  }
  MegatronIndex result = {firsts.back(), {}};
  for (int64_t i = 0; i < bounds; ++i) {
    if (documents[i] < (i == 0 ? 0 : documents[i - 1]) || documents[i] > sequences) {
      return Damaged(index, absl::StrCat("has a bound of documents at sequence ", documents[i]));
    }
    const int64_t first = firsts[static_cast<size_t>(documents[i])];
    const bool is_new = result.document_starts.empty() || first > result.document_starts.back();
    if (is_new && first < result.tokens) result.document_starts.push_back(first);
  }
  return result;
}

}  // namespace zerofleet::data
