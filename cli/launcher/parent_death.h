// Makes a child of the launcher die with it, whatever kills the launcher.
#ifndef ZEROFLEET_CLI_LAUNCHER_PARENT_DEATH_H_
#define ZEROFLEET_CLI_LAUNCHER_PARENT_DEATH_H_

namespace zerofleet::cli {

// Set by the launcher in its children's environment: its own process id.
inline constexpr char kParentVariable[] = "ZEROFLEET_LAUNCHER_PID";

// If kParentVariable is set: asks the kernel to kill this process when its parent dies, and ends it now if the parent
// has already changed. To be called from main's thread before anything else.
void DieWithParent();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_PARENT_DEATH_H_
