// Any bytes as a configuration file: a result, or an error of one line, and never a crash.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "cli/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = zerofleet::cli::ParseConfig(text, "fuzz.yaml", {});
  if (config.ok()) {
    std::string wire;
    ZF_CHECK(config->SerializeToString(&wire));
  } else {
    ZF_CHECK(config.status().message().find('\n') == absl::string_view::npos);
  }
  return 0;
}
