// The process's own write, fsync, rename, advice and more, seen and bent by a test: a test that links this file has
// them in place of libc's. What durability is made of, and what no other test can see, is their order and what follows
// when one fails.
#ifndef ZEROFLEET_BASE_FILE_CALLS_TESTING_H_
#define ZEROFLEET_BASE_FILE_CALLS_TESTING_H_

#include <cstddef>
#include <string>
#include <vector>

namespace zerofleet {

// While one lives, calls on paths below `directory` are recorded. One at a time.
class FileCallLog {
 public:
  explicit FileCallLog(const std::string& directory);
  ~FileCallLog();
  FileCallLog(const FileCallLog&) = delete;
  FileCallLog& operator=(const FileCallLog&) = delete;

  // "write a.tmp", "fsync a.tmp", "rename a.tmp a", "fsync ." in order, by paths relative to the directory; writes that
  // follow one another in one file are one. "uncache a": DropFromCache.
  std::vector<std::string> calls() const;
  // Returns once this call is among them.
  void WaitFor(const std::string& call);

  // Every fsync of the file `name` (relative to the directory) fails with `error` from now on.
  void FailFsync(const std::string& name, int error);

  // Every rename to `name` (relative to the directory) fails with `error` from now on.
  void FailRename(const std::string& name, int error);
  // Every rename to `name` is carried out from now on and says `error` all the same, as over NFS when the answer is
  // lost.
  void LoseRename(const std::string& name, int error);
  // The same of every rename.
  void LoseEveryRename(int error);
  // Renames know no flags from now on, as on NFS; of a name that is taken the kernel itself says so, whatever the
  // flags.
  void RefuseRenameFlags();
  // Renames of files are made from now on as a copy would be: what was there stays, and success is said.
  void KeepRenamed();
  // Renames heed no flags from now on: they replace what they must not.
  void IgnoreRenameFlags();
  // O_EXCL is not heeded from now on.
  void IgnoreExclusive();
  // Every flock fails with `error` from now on; 0: every one succeeds.
  void BendFlock(int error);
  // What statfs says of the type of the file system.
  void SetFileSystem(long type);
  // Every look (stat, lstat) at the path `name` (relative to the directory) fails with `error` from now on.
  void FailStat(const std::string& name, int error);
  // No file can be made from now on: the error is `error`; 0: it can.
  void FailCreation(int error);

  // The next fsync of a file whose name ends so waits for ReleaseFsync, without a time limit.
  void HoldFsync(const std::string& suffix);
  void WaitUntilHeld();
  void ReleaseFsync();
  // The same of the write of at least `bytes` to such a file, for ReleaseWrite.
  void HoldWrite(const std::string& suffix, size_t bytes);
  void ReleaseWrite() { ReleaseFsync(); }
  // The same of the advice on such a file.
  void HoldUncache(const std::string& suffix);
  void ReleaseUncache() { ReleaseFsync(); }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_FILE_CALLS_TESTING_H_
