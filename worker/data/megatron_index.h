// The index of a Megatron data set: X.idx says where the documents of X.bin are.
//
// Megatron-LM's and NeMo's layout (megatron/core/datasets/indexed_dataset.py), little-endian: "MMIDIDX\0\0"; a uint64
// version (1); a byte for the token type; the uint64 numbers of sequences and of document bounds; each sequence's int32
// length in tokens; each sequence's int64 offset in bytes; the bounds as int64 numbers of sequences; for multimodal
// data, a byte per sequence.
#ifndef ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_
#define ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/token_file.h"

namespace zerofleet::data {

// Whether `head` begins an index in this layout or in fairseq's older one.
bool IsMegatronIndex(std::string_view head);

// Bytes of the token type in an index that begins with `head`; 0 for types other than uint16 and int32, which can be
// read as they stand, and for another layout.
int MegatronTokenBytes(std::string_view head);

struct MegatronIndex {
  int64_t tokens = 0;
  std::vector<int64_t> document_starts;  // positions of documents' first tokens, ascending, without empty documents
};

// Reads `index`, whose data file has `data_bytes` bytes of tokens of MegatronTokenBytes bytes each. DataLoss, naming
// the file, if the index is damaged, is not of version 1, or does not describe the whole data file in its order.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const TokenFile& index, int64_t data_bytes);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_
