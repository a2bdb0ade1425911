// Hands a command line over to Python, for runs whose model is a PyTorch module.
#ifndef ZEROFLEET_CLI_COMMANDS_PYTHON_H_
#define ZEROFLEET_CLI_COMMANDS_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace zerofleet::cli {

// The interpreter: `given`, else $ZEROFLEET_PYTHON, else python3.
std::string PythonOf(const std::string& given);

// Replaces this process by `python` with these arguments; returns only on failure. FailedPrecondition if it cannot be
// started.
absl::Status BecomePython(const std::string& python, const std::vector<std::string>& arguments);

// Replaces this process by the package's command line in `python`. FailedPrecondition also if that Python does not have
// the package.
absl::Status BecomePackage(const std::string& python, const std::vector<std::string>& arguments);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_PYTHON_H_
