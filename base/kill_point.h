// Places at which a test kills this process, to try what a crash at each of them leaves behind.
//
// In a user's build a kill point does nothing. With the CMake option ZEROFLEET_KILL_POINTS, which is for tests only,
// the environment says where to kill: ZEROFLEET_KILL_AT=NAME[@FILE][:N] means the N-th passing (the first, if N is left
// out) of the point NAME; a point that has a file matches only NAME@FILE. The first process to get there creates the
// file that ZEROFLEET_KILL_MARK names and gets SIGKILL; once that file exists no other process is killed, so that the
// replacement survives. tests/chaos/kill_points.py finds the points in the sources and tries each. To add one, name it
// "ROOM/WHERE" after what has been done or is about to be.
#ifndef ZEROFLEET_BASE_KILL_POINT_H_
#define ZEROFLEET_BASE_KILL_POINT_H_

#ifdef ZEROFLEET_KILL_POINTS
#include <string>
namespace zerofleet {
// `file` is a path, of which only the file name counts; empty if the point has no file.
void PassKillPoint(const char* name, const std::string& file = "");
}  // namespace zerofleet
#define ZF_KILL_POINT(name) ::zerofleet::PassKillPoint(name)
#define ZF_FILE_KILL_POINT(name, file) ::zerofleet::PassKillPoint(name, file)
#else
#define ZF_KILL_POINT(name) static_cast<void>(0)
#define ZF_FILE_KILL_POINT(name, file) static_cast<void>(0)
#endif

#endif  // ZEROFLEET_BASE_KILL_POINT_H_
