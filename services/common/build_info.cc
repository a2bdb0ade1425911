// Version, revision and build id of the object that runs; see build_info.h.
#include "services/common/build_info.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace zerofleet::services {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t Align(size_t bytes) { return (bytes + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment; }

// The description of the GNU build-id note in a note segment, as hexadecimal; empty if it is not there.
std::string BuildIdInNotes(const char* notes, size_t bytes) {
  size_t offset = 0;
  while (offset + sizeof(ElfW(Nhdr)) <= bytes) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + offset, sizeof(header));
    const size_t name = offset + sizeof(header);
    const size_t description = name + Align(header.n_namesz);
    const size_t end = description + Align(header.n_descsz);
    if (end > bytes) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof(ELF_NOTE_GNU) &&
        std::memcmp(notes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
      return absl::BytesToHexString(absl::string_view(notes + description, header.n_descsz));
    }
    offset = end;
  }
  return "";
}

// Whether `address` lies in `object`, an executable or a shared library.
bool Contains(const dl_phdr_info& object, ElfW(Addr) address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const ElfW(Addr) begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) return true;
  }
  return false;
}

// Stores the build id of the object that this code is in: the executable, or a library that another program has loaded.
// A non-zero return ends the walk of dl_iterate_phdr.
int VisitOurs(dl_phdr_info* object, size_t, void* result) {
  if (!Contains(*object, reinterpret_cast<ElfW(Addr)>(&VisitOurs))) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const std::string build_id = BuildIdInNotes(notes, segment.p_memsz);
    if (!build_id.empty()) *static_cast<std::string*>(result) = build_id;
  }
  return 1;
}

BuildInfo Collect() {
  BuildInfo info;
  info.version = ZEROFLEET_VERSION;
  info.revision = ZEROFLEET_REVISION;
  info.cuda = ZEROFLEET_WITH_CUDA;
  dl_iterate_phdr(VisitOurs, &info.build_id);
  ZF_CHECK(!info.build_id.empty());  // linked with --build-id
  return info;
}

}  // namespace

const BuildInfo& GetBuildInfo() {
  static const BuildInfo info = Collect();
  return info;
}

}  // namespace zerofleet::services
