// Fuzzes manifest.json: an accepted text must survive printing and parsing. A digest cannot be guessed, so the seeds
// are of version 1, which has none; printed, they are of a later version.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "worker/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet;
  using namespace zerofleet::checkpoint;
  absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) return 0;
  std::string text = ManifestText(*manifest);
  absl::StatusOr<v1::CheckpointManifest> again = ParseManifest(text);
  ZF_CHECK(again.ok());
  ZF_CHECK(ManifestText(*again) == text);
  return 0;
}
