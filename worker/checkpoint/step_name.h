// The names of step directories: "step-00000100", with at least eight digits.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_
#define ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_

#include <cstdint>
#include <string>

namespace zerofleet::checkpoint {

// 100 -> "step-00000100".
std::string StepName(int64_t step);

// The reverse of StepName; -1 for any other name.
int64_t StepOfName(const std::string& name);

// The last part of a path, which may end with a slash.
std::string NameOfDirectory(const std::string& path);

// The step in a directory's name, whatever it holds; -1 if it has another name, as a user's copy may.
int64_t StepOfDirectory(const std::string& step_dir);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_
