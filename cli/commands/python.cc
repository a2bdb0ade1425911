// execvp; see python.h.
#include "cli/commands/python.h"

#include <spawn.h>
#include <sys/wait.h>
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

namespace {

constexpr char kNameIt[] = "name the Python that has the package zerofleet with --python or $ZEROFLEET_PYTHON";

// Whether `python` says that it does not have the package. If it cannot be run at all, starting it will show why.
bool LacksPackage(const std::string& python) {
  constexpr int kLacks = 41;
  std::string ask =
      absl::StrCat("import importlib.util as u; raise SystemExit(0 if u.find_spec('zerofleet') else ", kLacks, ")");
  std::string program = python, flag = "-c";
  char* const arguments[] = {program.data(), flag.data(), ask.data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, python.c_str(), nullptr, nullptr, arguments, environ) != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == kLacks;
}

}  // namespace

absl::Status BecomePackage(const std::string& python, const std::vector<std::string>& arguments) {
  if (LacksPackage(python)) {
    return absl::FailedPreconditionError(
        absl::StrCat(python, " has no package zerofleet; install it (pip install ./python), or ", kNameIt));
  }
  std::vector<std::string> all = {"-m", "zerofleet"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return BecomePython(python, all);
}

absl::Status BecomePython(const std::string& python, const std::vector<std::string>& arguments) {
  std::vector<std::string> texts = {python};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  execvp(python.c_str(), pointers.data());
  return absl::FailedPreconditionError(absl::StrCat(python, ": ", std::strerror(errno), "; ", kNameIt));
}

}  // namespace zerofleet::cli
