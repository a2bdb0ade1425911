// Well-formed sequences and the stream that enforces them; see utf8.h.
#include "cli/config/utf8.h"

namespace zerofleet::cli {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// Whether `second` may follow `lead`; its range rules out overlong forms, surrogates and values beyond Unicode.
bool SecondFits(unsigned char lead, unsigned char second) {
  const unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

}  // namespace

int Utf8Length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const int length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  for (int k = 1; k < length; ++k) {
    if (k >= static_cast<int>(text.size())) return kUtf8Incomplete;
    const auto next = static_cast<unsigned char>(text[k]);
    if (k == 1 ? !SecondFits(lead, next) : (next & 0xc0) != 0x80) return kUtf8Invalid;
  }
  return length;
}

bool IsPlainText(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x20 || lead == 0x7f) return false;
    const int length = Utf8Length(text.substr(i));
    if (length <= 0) return false;
    if (lead == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;
    i += static_cast<size_t>(length);
  }
  return true;
}

std::string Utf8Stream::Add(std::string_view bytes) {
  held_ += bytes;
  std::string shown;
  size_t done = 0;
  while (done < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(done);
    const int length = Utf8Length(rest);
    if (length == kUtf8Incomplete) break;
    if (length == kUtf8Invalid) {
      shown += kReplacement;
      done += 1;
    } else {
      shown += rest.substr(0, length);
      done += length;
    }
  }
  held_.erase(0, done);
  return shown;
}

std::string Utf8Stream::Finish() {
  std::string shown;
  for (size_t i = 0; i < held_.size(); ++i) shown += kReplacement;
  held_.clear();
  return shown;
}

}  // namespace zerofleet::cli
