// execvp; see python.h.
#include "cli/commands/python.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {

std::string PythonOf(const std::string& given) {
  if (!given.empty()) return given;
  const char* const named = getenv("ZEROFLEET_PYTHON");
  return named == nullptr || *named == '\0' ? "python3" : named;
}

absl::Status BecomePython(const std::string& python, const std::vector<std::string>& arguments) {
  std::vector<std::string> texts = {python};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  execvp(python.c_str(), pointers.data());
  return absl::FailedPreconditionError(absl::StrCat(python, ": ", std::strerror(errno),
                                                    "; name the Python that has the package zerofleet with --python "
                                                    "or $ZEROFLEET_PYTHON"));
}

}  // namespace zerofleet::cli
