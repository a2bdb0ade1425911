// The index of a Megatron data set: X.idx says where the documents of X.bin are.
//
// Megatron-LM's and NeMo's layout (megatron/core/datasets/indexed_dataset.py), little-endian: "MMIDIDX\0\0", a uint64
// version (1), a byte for the token type, the uint64 counts of sequences and of document bounds, each sequence's int32
// length in tokens, each one's int64 offset in bytes, the bounds as int64 numbers of sequences, and of multimodal data
// a byte per sequence.
#ifndef ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_
#define ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/token_file.h"

namespace zerofleet::data {

// Whether `head` begins an index, of this layout or of fairseq's before it.
bool IsMegatronIndex(std::string_view head);

// Bytes of the token type in an index that begins with `head`: uint16 and int32 can be read as they stand; 0 for any
// other, and for another layout.
int MegatronTokenBytes(std::string_view head);

struct MegatronIndex {
  int64_t tokens = 0;
  std::vector<int64_t> document_starts;  // the positions of first tokens, ascending, without those of empty documents
};

// Reads `index`, whose data file has `data_bytes` bytes of tokens of MegatronTokenBytes. DataLoss, naming the file, for
// one that is damaged, that is not of version 1, or that does not describe all of such a file in its order.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(const TokenFile& index, int64_t data_bytes);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_MEGATRON_INDEX_H_
