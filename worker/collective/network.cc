// Sets the libraries' environment variables; see network.h.
#include "worker/collective/network.h"

#include <net/if.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zerofleet::collective {
namespace {

std::vector<std::string> InterfaceNames() {
  std::vector<std::string> names;
  struct if_nameindex* all = if_nameindex();
  if (all == nullptr) return names;
  for (const struct if_nameindex* one = all; one->if_index != 0; ++one) names.push_back(one->if_name);
  if_freenameindex(all);
  return names;
}

}  // namespace

absl::Status UseNetworkInterface(const std::string& name) {
  if (if_nametoindex(name.c_str()) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("network interface \"", name, "\" does not exist; this machine has ",
                                                   absl::StrJoin(InterfaceNames(), ", ")));
  }
  setenv("UCX_NET_DEVICES", name.c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", absl::StrCat("=", name).c_str(), 1);  // "=": exactly this name
  return absl::OkStatus();
}

void KeepLaunchOrder() { setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0); }

}  // namespace zerofleet::collective
