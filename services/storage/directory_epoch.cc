// Reading and writing the epoch file; see directory_epoch.h.
#include "services/storage/directory_epoch.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/spare_file.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "services/common/address.h"
#include "services/security/token.h"

namespace zerofleet::services {
namespace {

constexpr int64_t kEpochFormatVersion = 1;
constexpr int64_t kEpochLimitBytes = 4096;
constexpr size_t kLongestText = 255;
constexpr int64_t kLargestSeconds = 253'402'300'799;  // the year 9999
constexpr int64_t kLargestEpoch = int64_t{1} << 62;

constexpr char kVersionKey[] = "format_version", kEpochKey[] = "epoch", kGenerationKey[] = "generation",
               kHostKey[] = "host", kPidKey[] = "pid", kIncarnationKey[] = "incarnation",
               kSinceKey[] = "since_unix_seconds";
constexpr char kTemporaryStart[] = ".epoch.", kTemporaryEnd[] = ".tmp";

std::string PathOf(const std::string& dir) { return JoinPath(dir, kEpochName); }

absl::Status Unknown(const std::string& dir, const std::string& what) {
  return absl::DataLossError(absl::StrCat(
      PathOf(dir), ": ", what, ", so it is not known who holds ", dir,
      "; make sure that no other coordinator uses it, and move the file away: the coordinator writes it anew"));
}

bool IsName(const nlohmann::json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return !text.empty() && text.size() <= kLongestText &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
}

bool IsNumber(const nlohmann::json& json, const char* key, int64_t least, int64_t most) {
  if (!json.contains(key) || !json[key].is_number_integer()) return false;
  if (json[key].is_number_unsigned() && json[key].get<uint64_t>() > static_cast<uint64_t>(most)) return false;
  return json[key].get<int64_t>() >= least && json[key].get<int64_t>() <= most;
}

absl::StatusOr<DirectoryHolder> Parse(const std::string& dir, const std::string& text) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text);
  if (!parsed.ok()) return Unknown(dir, std::string(parsed.status().message()));
  const nlohmann::json& json = *parsed;
  if (!json.is_object()) return Unknown(dir, "is not a JSON object");
  if (!IsNumber(json, kVersionKey, 1, kLargestEpoch)) return Unknown(dir, "has no format version");
  if (json[kVersionKey].get<int64_t>() > kEpochFormatVersion) {
    return Unknown(dir, absl::StrCat("is of a later release (format version ", json[kVersionKey].get<int64_t>(),
                                     ", this one reads ", kEpochFormatVersion, ")"));
  }
  for (const char* key : {kEpochKey, kGenerationKey, kPidKey, kSinceKey}) {
    const int64_t least = key == kEpochKey ? 1 : 0, most = key == kSinceKey ? kLargestSeconds : kLargestEpoch;
    if (!IsNumber(json, key, least, most)) return Unknown(dir, absl::StrCat("has no usable \"", key, "\""));
  }
  for (const char* key : {kHostKey, kIncarnationKey}) {
    if (!json.contains(key) || !IsName(json[key])) return Unknown(dir, absl::StrCat("has no usable \"", key, "\""));
  }
  return DirectoryHolder{json[kEpochKey].get<int64_t>(),           json[kGenerationKey].get<uint64_t>(),
                         json[kHostKey].get<std::string>(),        json[kPidKey].get<int64_t>(),
                         json[kIncarnationKey].get<std::string>(), json[kSinceKey].get<int64_t>()};
}

// Removes temporary files of coordinators that were killed while they wrote. If another coordinator is writing one now,
// its write fails with an error.
void RemoveTemporaries(const std::string& dir) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(dir);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kTemporaryStart) || !absl::EndsWith(name, kTemporaryEnd)) continue;
    RemoveOne(JoinPath(dir, name)).IgnoreError();
  }
}

std::string HostOfThisProcess() {
  std::string host = HostName();
  std::replace_if(
      host.begin(), host.end(), [](unsigned char c) { return !absl::ascii_isgraph(c); }, '?');
  return host.empty() ? "unknown" : host;
}

}  // namespace

absl::StatusOr<DirectoryHolder> ReadDirectoryHolder(const std::string& dir) {
  // Listing the directory makes NFS ask the server, and not answer from its cache of names.
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(dir);
  if (!names.ok() && !absl::IsNotFound(names.status())) {
    return absl::UnavailableError(
        absl::StrCat(names.status().message(), "; it is not known whether another coordinator has taken over ", dir));
  }
  if (!names.ok() || std::find(names->begin(), names->end(), kEpochName) == names->end()) {
    return absl::NotFoundError(absl::StrCat(PathOf(dir), ": is not there; it is not known who holds ", dir));
  }
  const absl::StatusOr<std::string> text = ReadSmallFile(PathOf(dir), kEpochLimitBytes);
  if (text.ok()) return Parse(dir, *text);
  const absl::StatusOr<int64_t> bytes = FileBytes(PathOf(dir));
  const bool odd = absl::IsNotFound(text.status()) || (bytes.ok() && *bytes > kEpochLimitBytes);
  if (odd) return Unknown(dir, absl::StrCat("is not a file of at most ", kEpochLimitBytes, " bytes"));
  return absl::UnavailableError(
      absl::StrCat(text.status().message(), "; it is not known whether another coordinator has taken over ", dir));
}

absl::StatusOr<std::unique_ptr<DirectoryEpoch>> DirectoryEpoch::Claim(const std::string& dir, uint64_t generation,
                                                                      absl::Time now) {
  DirectoryHolder self{
      1, generation, HostOfThisProcess(), static_cast<int64_t>(getpid()), MakeToken(), absl::ToUnixSeconds(now)};
  const absl::StatusOr<DirectoryHolder> before = ReadDirectoryHolder(dir);
  if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
  if (before.ok()) self.epoch = before->epoch + 1;
  RemoveTemporaries(dir);
  std::unique_ptr<DirectoryEpoch> claimed(new DirectoryEpoch(dir, std::move(self)));
  ZF_RETURN_IF_ERROR(claimed->Write());
  ZF_RETURN_IF_ERROR(claimed->Check());
  return claimed;
}

// The temporary name is this coordinator's alone, so that each replaces the other's file as a whole or not at all.
absl::Status DirectoryEpoch::Write() const {
  const nlohmann::ordered_json json = {{kVersionKey, kEpochFormatVersion},
                                       {kEpochKey, self_.epoch},
                                       {kGenerationKey, self_.generation},
                                       {kHostKey, self_.host},
                                       {kPidKey, self_.pid},
                                       {kIncarnationKey, self_.incarnation},
                                       {kSinceKey, self_.since_unix_seconds}};
  return WriteFileKeepingRoom(PathOf(dir_), DumpJson(json) + "\n",
                              JoinPath(dir_, absl::StrCat(kTemporaryStart, self_.incarnation, kTemporaryEnd)));
}

absl::Status DirectoryEpoch::Check() const {
  ZF_ASSIGN_OR_RETURN(const DirectoryHolder holder, ReadDirectoryHolder(dir_));
  return CheckHolder(dir_, holder, self_);
}

absl::Status DirectoryEpoch::Restore() const {
  absl::Status checked = Check();
  if (!absl::IsNotFound(checked)) return checked;
  ZF_RETURN_IF_ERROR(Write());
  return Check();
}

}  // namespace zerofleet::services
