// The names of step directories: "step-00000100", with at least eight digits.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_
#define ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_

#include <cstdint>
#include <string>

namespace zerofleet::checkpoint {

// 100 -> "step-00000100".
std::string StepName(int64_t step);

// The reverse; -1 for any other name.
int64_t StepOfName(const std::string& name);

// The last part of a path, which may end with a slash.
std::string NameOfDirectory(const std::string& path);

// The step that a directory's name says, whatever is in it; -1 if it has another name, as a copy may that somebody
// keeps.
int64_t StepOfDirectory(const std::string& step_dir);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_STEP_NAME_H_
