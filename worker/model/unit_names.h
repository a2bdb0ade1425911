// The units of a transformer, as reports and the partition name them.
#ifndef ZEROFLEET_WORKER_MODEL_UNIT_NAMES_H_
#define ZEROFLEET_WORKER_MODEL_UNIT_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace zerofleet::model {

inline constexpr char kEmbeddingUnit[] = "embedding", kHeadUnit[] = "head";
inline std::string BlockUnit(int64_t layer) { return absl::StrCat("block.", layer); }
inline std::string AdapterUnit(int64_t layer) { return absl::StrCat("adapters.", layer); }

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_UNIT_NAMES_H_
