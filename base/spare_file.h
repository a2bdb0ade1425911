// A small file that can be replaced even on a full disk, so that a fleet can start and go on there.
#ifndef ZEROFLEET_BASE_SPARE_FILE_H_
#define ZEROFLEET_BASE_SPARE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace zerofleet {

// The file next to `path` whose blocks are kept for the next replacement: "PATH.spare".
std::string SparePath(const std::string& path);

// As WriteFileAtomically, with its errors. If that finds no room, the contents are written over the spare file, which
// then atomically takes the place of `path`; what was at `path` becomes the spare. A spare is made, or made larger,
// after each replacement for which there was room: at least one block, and twice the contents.
//
// Success on a full disk is not guaranteed while there is no spare yet, nor on a file system that writes overwritten
// data to new blocks (btrfs, ZFS): there the spare is given up for a second attempt, which succeeds if nobody else
// takes its room.
absl::Status WriteFileKeepingRoom(const std::string& path, std::string_view contents, std::string temporary = "");

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_SPARE_FILE_H_
