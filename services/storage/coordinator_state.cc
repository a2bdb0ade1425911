// Reading and writing the state file; see coordinator_state.h.
#include "services/storage/coordinator_state.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/spare_file.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"

namespace zerofleet::services {
namespace {

constexpr int kFormatVersion = 3;  // 1 had no rollbacks, 2 no manifests; both are still read
constexpr int64_t kLimitBytes = 4 << 20;

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat(path, ": ", what, "; restore it, or move it away if no worker of an earlier run is still running"));
}

constexpr char kRollbacksKey[] = "rollbacks";
constexpr int64_t kMostSamples = 4'000'000'000'000'000'000;  // as in a manifest; plus a step's samples it fits 64 bits
struct RollbackKey {
  const char* name;
  int64_t coordinator::Rollback::*value;
  int64_t smallest;
};
constexpr RollbackKey kRollbackKeys[] = {{"step", &coordinator::Rollback::step, 0},
                                         {"resumed_step", &coordinator::Rollback::resumed_step, -1},
                                         {"first_sample", &coordinator::Rollback::first_sample, 0},
                                         {"end_sample", &coordinator::Rollback::end_sample, 0}};
constexpr char kCauseKey[] = "cause";

// Fewer than `generation`, since every rollback began a generation after the first view's.
absl::StatusOr<std::vector<coordinator::Rollback>> ReadRollbacks(const std::string& path, const nlohmann::json& json,
                                                                 int64_t generation) {
  if (!json.contains(kRollbacksKey) || !json[kRollbacksKey].is_array()) {
    return Damaged(path, absl::StrCat("has no array \"", kRollbacksKey, "\""));
  }
  std::vector<coordinator::Rollback> rollbacks;
  for (const nlohmann::json& entry : json[kRollbacksKey]) {
    coordinator::Rollback& rollback = rollbacks.emplace_back();
    bool good = entry.is_object() && entry.contains(kCauseKey) && entry[kCauseKey].is_string();
    for (const RollbackKey& key : kRollbackKeys) {
      good = good && entry.contains(key.name) && entry[key.name].is_number_integer();
      if (good) rollback.*key.value = entry[key.name].get<int64_t>();
      good = good && rollback.*key.value >= key.smallest && rollback.*key.value <= kMostSamples;
    }
    // Step 0: a coordinator that lost its state learnt only the samples from the running fleet.
    good = good && (rollback.step == 0 || rollback.resumed_step < rollback.step);
    good = good && rollback.first_sample <= rollback.end_sample;
    if (!good) return Damaged(path, "holds a rollback that cannot be");
    rollback.cause = entry[kCauseKey].get<std::string>();
  }
  if (!rollbacks.empty() && static_cast<int64_t>(rollbacks.size()) >= generation) {
    return Damaged(path, absl::StrCat("holds ", rollbacks.size(), " rollbacks, more than a run of generation ",
                                      generation, " can have made"));
  }
  return rollbacks;
}

constexpr char kRunIdKey[] = "run_id";
constexpr char kManifestsKey[] = "manifests", kStepKey[] = "step", kDigestKey[] = "manifest_xxh3_128";

// Whether the text can be a manifest's digest, or a run's id.
bool IsDigest(const std::string& text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::vector<coordinator::CommittedManifest>> ReadManifests(const std::string& path,
                                                                          const nlohmann::json& json) {
  if (!json.contains(kManifestsKey) || !json[kManifestsKey].is_array()) {
    return Damaged(path, absl::StrCat("has no array \"", kManifestsKey, "\""));
  }
  std::vector<coordinator::CommittedManifest> manifests;
  for (const nlohmann::json& entry : json[kManifestsKey]) {
    const bool good = entry.is_object() && entry.contains(kStepKey) && entry[kStepKey].is_number_integer() &&
                      entry[kStepKey].get<int64_t>() >= 0 && entry.contains(kDigestKey) &&
                      entry[kDigestKey].is_string() && IsDigest(entry[kDigestKey].get<std::string>());
    if (!good) return Damaged(path, "holds the digest of a manifest that cannot be");
    manifests.push_back({entry[kStepKey].get<int64_t>(), entry[kDigestKey].get<std::string>()});
  }
  return manifests;
}

}  // namespace

std::string CoordinatorStatePath(const std::string& state_dir) { return JoinPath(state_dir, "coordinator.json"); }

absl::StatusOr<coordinator::CoordinatorState> ReadCoordinatorState(const std::string& state_dir) {
  std::string path = CoordinatorStatePath(state_dir);
  if (absl::IsNotFound(IdOf(path).status())) return coordinator::CoordinatorState();
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
  std::vector<coordinator::Rollback> rollbacks;
  if (version >= 2) {
    ZF_ASSIGN_OR_RETURN(rollbacks, ReadRollbacks(path, json, generation));
  }
  std::vector<coordinator::CommittedManifest> manifests;
  if (version >= 3) {
    ZF_ASSIGN_OR_RETURN(manifests, ReadManifests(path, json));
  }
  std::string run_id;
  if (json.contains(kRunIdKey)) {
    if (!json[kRunIdKey].is_string() || !IsDigest(json[kRunIdKey].get<std::string>())) {
      return Damaged(path, absl::StrCat("has no usable \"", kRunIdKey, "\""));
    }
    run_id = json[kRunIdKey].get<std::string>();
  }
  return coordinator::CoordinatorState{static_cast<uint64_t>(generation), step, std::move(rollbacks),
                                       std::move(manifests), std::move(run_id)};
}

absl::Status WriteCoordinatorState(const std::string& state_dir, const coordinator::CoordinatorState& state) {
  ZF_RETURN_IF_ERROR(CreateDirectories(state_dir));
  nlohmann::ordered_json json = {{"format_version", kFormatVersion},
                                 {"generation", state.generation},
                                 {"last_committed_step", state.last_committed_step},
                                 {kRollbacksKey, nlohmann::ordered_json::array()},
                                 {kManifestsKey, nlohmann::ordered_json::array()}};
  for (const coordinator::Rollback& rollback : state.rollbacks) {
    nlohmann::ordered_json entry;
    for (const RollbackKey& key : kRollbackKeys) entry[key.name] = rollback.*key.value;
    entry[kCauseKey] = rollback.cause;
    json[kRollbacksKey].push_back(std::move(entry));
  }
  for (const coordinator::CommittedManifest& manifest : state.manifests) {
    json[kManifestsKey].push_back({{kStepKey, manifest.step}, {kDigestKey, manifest.digest}});
  }
  if (!state.run_id.empty()) json[kRunIdKey] = state.run_id;
  return WriteFileKeepingRoom(CoordinatorStatePath(state_dir), DumpJson(json) + "\n");
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
    std::error_code ignored;  // the file is left to the next call
    std::filesystem::remove(JoinPath(state_dir, names[i]), ignored);
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::services
