// Places at which a test has this process killed, so that what a crash leaves there is tried at each of them.
//
// In a build as users have it a kill point is nothing. With the CMake option ZEROFLEET_KILL_POINTS, which is for tests
// alone, the environment says where: ZEROFLEET_KILL_AT=NAME[@FILE][:N] is the N-th passing (the first, if N is left
// out) of the point with that name, of those that have a file at FILE alone. The process that comes there first creates
// the file that ZEROFLEET_KILL_MARK names and gets SIGKILL; once that file is there nobody is killed, so that what
// replaces it lives. tests/chaos/kill_points.py finds the points in the sources and tries each. To add one, name it
// "ROOM/WHERE" after what has been done or is about to be.
#ifndef ZEROFLEET_BASE_KILL_POINT_H_
#define ZEROFLEET_BASE_KILL_POINT_H_

#ifdef ZEROFLEET_KILL_POINTS
#include <string>
namespace zerofleet {
// `file`: a path, of which the name alone counts; empty if the point has none.
void PassKillPoint(const char* name, const std::string& file = "");
}  // namespace zerofleet
#define ZF_KILL_POINT(name) ::zerofleet::PassKillPoint(name)
#define ZF_FILE_KILL_POINT(name, file) ::zerofleet::PassKillPoint(name, file)
#else
#define ZF_KILL_POINT(name) static_cast<void>(0)
#define ZF_FILE_KILL_POINT(name, file) static_cast<void>(0)
#endif

#endif  // ZEROFLEET_BASE_KILL_POINT_H_
