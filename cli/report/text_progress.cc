// A bar and a percentage; see text_progress.h.
#include "cli/report/text_progress.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/str_format.h"
#include "cli/report/bars.h"

namespace zerofleet::cli {
namespace {

constexpr double kTextLiveSeconds = 0.2, kTextLineSeconds = 5;
constexpr char kClearTextLine[] = "\r\x1b[K";

}  // namespace

TextProgress::TextProgress(std::ostream& out, const Terminal& terminal, const Clock& clock)
    : out_(out), terminal_(terminal), clock_(clock), last_(clock.MonotonicSeconds()) {}

TextProgress::~TextProgress() {
  if (shown_ && terminal_.live()) out_ << kClearTextLine << std::flush;
}

void TextProgress::Show(const std::string& path, double part) {
  const double now = clock_.MonotonicSeconds();
  if (now - last_ < (terminal_.live() ? kTextLiveSeconds : kTextLineSeconds)) return;
  last_ = now;
  shown_ = true;
  const std::string percent = absl::StrFormat("%.0f%%", 100 * std::clamp(part, 0.0, 1.0));
  if (!terminal_.live()) {
    out_ << absl::StrFormat("tokenizing %s: %s", path, percent) << std::endl;
    return;
  }
  constexpr int kFewest = 40, kMost = 100;
  const size_t name = path.find_last_of('/') + 1;
  std::string line =
      RenderBars({{path.substr(name), percent, part}}, 1, std::clamp(terminal_.columns() - 1, kFewest, kMost));
  line.erase(std::remove(line.begin(), line.end(), '\n'), line.end());
  out_ << kClearTextLine << line << std::flush;
}

}  // namespace zerofleet::cli
