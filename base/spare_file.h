// A small file that can be replaced on a disk that is full: what a fleet needs to start and go on there.
#ifndef ZEROFLEET_BASE_SPARE_FILE_H_
#define ZEROFLEET_BASE_SPARE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace zerofleet {

// The file next to `path` whose blocks are kept for the next time: "PATH.spare".
std::string SparePath(const std::string& path);

// As WriteFileAtomically, with its errors. Where that finds no room, the contents go into the blocks of the spare file,
// which then takes the place of `path`, as one step as well; what was at `path` becomes the spare. A spare is made, or
// made larger, after each replacement for which there was room: at least one block, and twice the contents.
//
// Nothing is promised where there is no spare yet, or where a file system writes what is overwritten to new blocks
// (btrfs, ZFS): there the spare is given up for a second attempt, which finds the room if nobody else takes it.
absl::Status WriteFileKeepingRoom(const std::string& path, std::string_view contents, std::string temporary = "");

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_SPARE_FILE_H_
