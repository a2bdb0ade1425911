// Fuzzes report files with any text; what the parser accepts is rendered as text and as a page.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/report/run_file.h"
#include "cli/report/run_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zerofleet::cli;
  const absl::StatusOr<RunFile> run = ParseRunFile("run", {reinterpret_cast<const char*>(data), size});
  if (!run.ok()) return 0;
  ZF_CHECK(!run->steps.empty());
  ZF_CHECK(!RunsText({*run, *run}, /*compare=*/true, Terminal::OfSize(80, 0, false, false)).empty());
  ZF_CHECK(RunsPage({*run}).find("<script") == std::string::npos);
  return 0;
}
