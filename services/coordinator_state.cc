// Reading and writing the state file; see coordinator_state.h.
#include "services/coordinator_state.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"

namespace zerofleet::services {
namespace {

constexpr int kFormatVersion = 1;
constexpr int64_t kLimitBytes = 4096;

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat(path, ": ", what, "; restore it, or move it away if no worker of an earlier run is still running"));
}

}  // namespace

std::string CoordinatorStatePath(const std::string& state_dir) { return JoinPath(state_dir, "coordinator.json"); }

absl::StatusOr<coordinator::CoordinatorState> ReadCoordinatorState(const std::string& state_dir) {
  std::string path = CoordinatorStatePath(state_dir);
  if (!FileExists(path)) return coordinator::CoordinatorState();
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kLimitBytes));
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text);
  if (!parsed.ok()) return Damaged(path, std::string(parsed.status().message()));
  const nlohmann::json& json = *parsed;
  if (!json.is_object()) return Damaged(path, "is not a JSON object");
  for (const char* key : {"format_version", "generation", "last_committed_step"}) {
    if (!json.contains(key) || !json[key].is_number_integer()) {
      return Damaged(path, absl::StrCat("has no integer \"", key, "\""));
    }
  }
  int64_t version = json["format_version"].get<int64_t>();
  if (version > kFormatVersion) {
    return absl::DataLossError(
        absl::StrCat(path, ": format version ", version, " is of a later release; this one reads ", kFormatVersion));
  }
  int64_t generation = json["generation"].get<int64_t>();
  int64_t step = json["last_committed_step"].get<int64_t>();
  if (version < 1 || generation < 0 || step < -1) return Damaged(path, "holds impossible values");
  return coordinator::CoordinatorState{static_cast<uint64_t>(generation), step};
}

absl::Status WriteCoordinatorState(const std::string& state_dir, const coordinator::CoordinatorState& state) {
  ZF_RETURN_IF_ERROR(CreateDirectories(state_dir));
  nlohmann::ordered_json json = {{"format_version", kFormatVersion},
                                 {"generation", state.generation},
                                 {"last_committed_step", state.last_committed_step}};
  return WriteFileAtomically(CoordinatorStatePath(state_dir), json.dump() + "\n");
}

absl::Status WriteFlight(const std::string& state_dir, const v1::Flight& flight) {
  const auto path = [&](uint64_t generation) {
    return JoinPath(state_dir, absl::StrFormat("flight-%08d.json", generation));
  };
  ZF_RETURN_IF_ERROR(WriteFileAtomically(path(flight.generation()), DumpJson(ProtoToJson(flight), 1) + "\n"));
  ZF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(state_dir));
  std::erase_if(names, [](const std::string& name) { return !absl::StartsWith(name, "flight-"); });
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i + kMostFlightFiles < names.size(); ++i) {
    std::error_code ignored;  // it stays for the next time
    std::filesystem::remove(JoinPath(state_dir, names[i]), ignored);
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::services
