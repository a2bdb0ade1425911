# The headers that most files include, compiled once: a build from nothing parses them some 300 times less. Files still name every
# header that they use; builds without this option, CMake's default, fail where one does not.
set(ZF_PRECOMPILED
  <algorithm> <array> <atomic> <chrono> <cmath> <cstddef> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory> <optional>
  <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
  <absl/strings/str_split.h> <absl/synchronization/mutex.h>
  <zerofleet/v1/checkpoint.pb.h> <zerofleet/v1/config.pb.h> <zerofleet/v1/coordinator.pb.h> <zerofleet/v1/events.pb.h>)

# A precompiled header is refused where options differ, and some libraries add -pthread, so all targets get it.
target_compile_options(zerofleet_options INTERFACE -pthread)

# zf_precompiled(NAME HEADER...): a target from which targets with the same options reuse precompiled headers.
function(zf_precompiled name)
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "" @ONLY)
  add_library(${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE zerofleet_options protobuf::libprotobuf)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/proto)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  add_dependencies(${name} zf_proto_headers)
endfunction()

zf_precompiled(zf_headers ${ZF_PRECOMPILED})
zf_precompiled(zf_plain_headers ${ZF_PRECOMPILED})
target_compile_options(zf_plain_headers PRIVATE ${ZF_LITTLE_OPTIMIZED})
if(ZEROFLEET_TESTS)
  zf_precompiled(zf_test_headers ${ZF_PRECOMPILED} <gmock/gmock.h> <gtest/gtest.h>)
  target_compile_options(zf_test_headers PRIVATE -O0)
  target_link_libraries(zf_test_headers PRIVATE GTest::gmock GTest::gtest)
endif()
