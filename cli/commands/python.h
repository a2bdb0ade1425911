// Handing a command line over to Python, where a run's model is a PyTorch module.
#ifndef ZEROFLEET_CLI_COMMANDS_PYTHON_H_
#define ZEROFLEET_CLI_COMMANDS_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace zerofleet::cli {

// The interpreter: `given`, or what $ZEROFLEET_PYTHON says, or python3.
std::string PythonOf(const std::string& given);

// This process becomes `python` with these arguments. FailedPrecondition if it cannot be started.
absl::Status BecomePython(const std::string& python, const std::vector<std::string>& arguments);

// This process becomes the package's command line in `python`. FailedPrecondition if it has no such package too.
absl::Status BecomePackage(const std::string& python, const std::vector<std::string>& arguments);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_PYTHON_H_
