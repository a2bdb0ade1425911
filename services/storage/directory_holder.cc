// The newest coordinator holds the directory; see directory_holder.h.
#include "services/storage/directory_holder.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace zerofleet::services {

absl::Status CheckHolder(const std::string& dir, const DirectoryHolder& holder, const DirectoryHolder& self) {
  if (holder.incarnation == self.incarnation) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "another coordinator (host ", holder.host, ", pid ", holder.pid, ") has taken over ", dir, " since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(holder.since_unix_seconds), absl::UTCTimeZone()),
      " (epoch ", holder.epoch, ", this one has ", self.epoch, ")"));
}

}  // namespace zerofleet::services
