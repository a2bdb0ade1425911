// The model families. ModelSpec::Create and Model::Create look a row up here.
//
// A new family is a file of data (families/gpt2.cc is the example) and a line in families.cc.
#ifndef ZEROFLEET_WORKER_MODEL_FAMILIES_H_
#define ZEROFLEET_WORKER_MODEL_FAMILIES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/family.h"

namespace zerofleet::model {

// The largest model.context, in tokens; beyond it products could overflow.
inline constexpr int64_t kMostContext = int64_t{1} << 20;

// Every family; the first is the default.
std::span<const ModelFamily* const> ModelFamilies();
std::vector<std::string> ModelFamilyNames();

// InvalidArgument, listing the known names, if there is no such family.
absl::StatusOr<const ModelFamily*> FindModelFamily(std::string_view name);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FAMILIES_H_
