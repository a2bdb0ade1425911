# Functions for the folders' CMakeLists.txt: one library and one test binary per folder.

add_library(zerofleet_options INTERFACE)
# Kernels have their own warning options (Cuda.cmake).
target_compile_options(zerofleet_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -fno-omit-frame-pointer>)
target_include_directories(zerofleet_options INTERFACE ${CMAKE_SOURCE_DIR})
# The build id shows whether the ranks of a run are the same binary.
target_link_options(zerofleet_options INTERFACE -Wl,--build-id=sha1)
if(ZEROFLEET_SANITIZE)
  target_compile_options(zerofleet_options INTERFACE -fsanitize=${ZEROFLEET_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(zerofleet_options INTERFACE -fsanitize=${ZEROFLEET_SANITIZE})
endif()
if(ZEROFLEET_SANITIZE MATCHES "undefined")
  # The checks of pointers, for null, for alignment and for sums that overflow, take a quarter of the compiler's time, half of it for
  # kernels; those of objects' types and of functions' contracts take a tenth. AddressSanitizer reports accesses through null pointers
  # and behind overflows too; the other checks are made only where bytes from outside are parsed (zf_fuzzer).
  set(not_parsed alignment,pointer-overflow,vptr,function,return,unreachable,builtin,nonnull-attribute,returns-nonnull-attribute)
  target_compile_options(zerofleet_options INTERFACE
    -fno-sanitize=null $<$<NOT:$<BOOL:$<TARGET_PROPERTY:ZF_PARSES>>>:-fno-sanitize=${not_parsed}>)
endif()
# lld, where it is installed, links tests in a fifth of the time. Releases use the system's linker.
find_program(ZF_LLD ld.lld)
if(ZF_LLD AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_link_options(zerofleet_options INTERFACE -fuse-ld=lld)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(zerofleet_options INTERFACE -Wthread-safety -Werror=thread-safety)
endif()

# In a build with precompiled headers, the target reuses those of `headers`, which must have the same options.
function(zf_precompile name headers)
  if(ZEROFLEET_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()

# Rooms that compute much are optimised. In the others optimisation costs more than it gains: a quarter of the compiler's time.
set(ZF_OPTIMIZED_ROOMS base worker/device worker/device/cuda worker/optim)
if(ZEROFLEET_SANITIZE)
  set(ZF_LITTLE_OPTIMIZED -O0)
else()
  list(APPEND ZF_OPTIMIZED_ROOMS worker/collective worker/memory worker/model worker/zero)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND ZF_OPTIMIZED_ROOMS worker/data worker/text worker/checkpoint worker/trainer worker/inference worker/parallel)
    set(ZF_LITTLE_OPTIMIZED -O1)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Mutants")
    set(ZF_LITTLE_OPTIMIZED -O0)
  endif()
endif()

# zf_apart(SOURCE...): keeps those that ZEROFLEET_APART names out of unity builds.
function(zf_apart)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(path IN_LIST ZEROFLEET_APART)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# zf_library(NAME SOURCES a.cc b.cc DEPS x y)
function(zf_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  zf_apart(${ARG_SOURCES})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC zerofleet_options ${ARG_DEPS})
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE room)
    if(room IN_LIST ZF_OPTIMIZED_ROOMS)
      zf_precompile(${name} zf_headers)
    else()
      target_compile_options(${name} PRIVATE ${ZF_LITTLE_OPTIMIZED})
      zf_precompile(${name} zf_plain_headers)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE zerofleet_options ${ARG_DEPS})
  endif()
endfunction()

# A sanitizer build's tests carry its name, so that one ctest run over several builds can distinguish them.
if(ZEROFLEET_SANITIZE STREQUAL "thread")
  set(ZF_TEST_SUFFIX .tsan)
elseif(ZEROFLEET_SANITIZE)
  set(ZF_TEST_SUFFIX .asan)
endif()
# The tests of a thread-sanitizer build, which are those in which threads meet.
set(ZF_THREADED_TESTS collective_test services_test shared_words_test zero_threads_test)
# Tests that run the emulated GPU. For each of its threads AddressSanitizer would keep a second stack, to detect uses of the first
# after its end, which takes a third of these tests' time, so that check is off for them.
set(ZF_EMULATED_TESTS collective_test cuda_emulation_test device_test trainer_test zero_test)
# `ninja sanitized_tests` builds what a sanitizer build runs, fuzz targets included, and nothing else.
add_custom_target(sanitized_tests)
set(ZF_SANITIZER_ENVIRONMENT
  "ASAN_OPTIONS=detect_stack_use_after_return=1"
  "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/leaks.txt:print_suppressions=0"
  "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/threads.txt:second_deadlock_stack=1"
  "UBSAN_OPTIONS=print_stacktrace=1")
if(ZEROFLEET_SANITIZE STREQUAL "thread")
  # When it is loaded, UCX patches mmap, munmap and madvise, and ThreadSanitizer no longer sees these calls: memory that was a
  # thread's stack keeps its traces, and a thread's last act calls madvise after ThreadSanitizer has released the thread.
  list(APPEND ZF_SANITIZER_ENVIRONMENT UCX_MEM_EVENTS=no UCX_MEM_MMAP_HOOK_MODE=none)
endif()
if(ZEROFLEET_SANITIZE)
  # These are left out, since each takes many seconds under sanitizers and other tests cover the same interactions: worlds of 5 and 8
  # ranks as threads, of 2 as processes and of 3 over more than one transport, teams other than 2+2 and 2+2+1, tensor groups of 4 or
  # in bf16, the test of all pairs of fleets of which one writes and the other loads, comparisons of thirty steps, fifty faults of
  # memory; and on the emulated GPU what depends on the CPU's threads, finite differences of attention, five steps of tensor groups,
  # and a second type, optimizer or shape where the first shows the same.
  set(long_tests
    Backends/*5 Backends/*8 Transports/*2 Transports/*all3 Transports/*tcp3 Teams/*6by* Teams/*9by* Teams/*AllReduce*
    Fleets/*tensor_4* Fleets/*tensor_?_bf16 ReshardTest.AnyFleetLoads* *SameBits.InEveryStage/cuda_fp32_1
    *SameBits.InEveryStage/cuda_bf16_* *SameBits.InEveryStage/cuda_fp16_* *SameBits.InEveryStage/cuda_*_sgd
    *ThirtySteps* *GivesTheBitsOf* SequenceLosses.* Replays.NameTheRank* SampleOrder.RanksAndStages*
    Devices/TensorFleetLosses.InBf16*/cuda_* *.KeepTheirBitsInEveryStageWithMicroBatchesAndCheckpointing/cuda_Whole
    *.WeightsOfATensorGroup*/cuda_* *.WeightsAfterFiveStepsOfSgd/cuda_b
    *.SameBitsWithAnyNumberOfThreads/cuda_* *AttentionTest.GradientMatchesFiniteDifferences/cuda_* GemmPeakTest.*
    *.CrossEntropyInOneChunkAndMany/fp16 *.CrossEntropyInOneChunkAndMany/bf16 *CrossEntropyTest.MatchesDouble/cuda_bf16
    *.AnOddVocabularyIsMultipliedInEvenExtents/fp16 *.AnOddVocabularyIsMultipliedInEvenExtents/bf16)
  if(ZEROFLEET_SANITIZE STREQUAL "thread")
    # ThreadSanitizer sees one process at a time.
    list(APPEND long_tests Transports/* ProcessTeamsTest.* MessageLimits.AShardRecord*
      DeferredStreams.UpdatesBeforeTheDecisionOverNccl DeferredStreams.RightGuessesUpdateOnce)
  else()
    # Many moments of a rank's end, of which ThreadSanitizer reports the accesses to released memory as well.
    list(APPEND long_tests Backends/LifeTest.ARankThatFinishesFirst* Backends/LifeTest.AbortMayCome*)
  endif()
  list(JOIN long_tests ":" long_tests)
  list(APPEND ZF_SANITIZER_ENVIRONMENT "GTEST_FILTER=-${long_tests}")
endif()

# The longest that a test binary may take, in seconds: alone it takes a minute or so, and twenty times that under sanitizers, with
# the emulated GPU, or on a busy machine.
set(ZF_TEST_TIMEOUT 1500)

# zf_test(NAME SOURCES x_test.cc ... DEPS x [LABELS unit] [OPTIMIZED] [NOT_SANITIZED] [ONCE]): a GoogleTest binary, one ctest entry.
# The tested code is optimised and the test itself is not, since optimising GoogleTest's macros takes longer than running them;
# OPTIMIZED says that the test itself computes much, so that a build without sanitizers optimises it too. NOT_SANITIZED leaves the
# test out of sanitizer builds: it has no threads, and parses bytes only through code that other tests run there. ONCE says that it
# computes nothing that optimisation could change: where ZEROFLEET_TESTS_ONCE is set, as in `make test`, only sanitizer builds have it.
function(zf_test name)
  cmake_parse_arguments(ARG "OPTIMIZED;NOT_SANITIZED;ONCE" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ZEROFLEET_TESTS OR (ARG_ONCE AND ZEROFLEET_TESTS_ONCE AND NOT ZEROFLEET_SANITIZE))
    return()
  endif()
  if(ZEROFLEET_SANITIZE STREQUAL "thread")
    if(NOT name IN_LIST ZF_THREADED_TESTS)
      return()
    endif()
    list(APPEND ARG_SOURCES ${CMAKE_SOURCE_DIR}/tests/sanitizers/absl_sync.cc)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/sanitizers/absl_sync.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE zerofleet_options ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(ZF_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(ZEROFLEET_SANITIZE MATCHES "undefined")
    # The checks are for what is tested.
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  if(ARG_OPTIMIZED AND NOT ZEROFLEET_SANITIZE)
    zf_precompile(${name} zf_headers)
  else()
    target_compile_options(${name} PRIVATE -O0)
    zf_precompile(${name} zf_test_headers)
  endif()
  if(CMAKE_UNITY_BUILD AND NOT ZEROFLEET_SANITIZE)
    target_compile_options(${name} PRIVATE -g0)  # a unity build is not for debugging
  endif()
  if(ARG_NOT_SANITIZED AND ZEROFLEET_SANITIZE)
    return()
  endif()
  add_dependencies(sanitized_tests ${name})
  add_test(NAME ${name}${ZF_TEST_SUFFIX} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set(environment ${ZF_SANITIZER_ENVIRONMENT})
  if(name IN_LIST ZF_EMULATED_TESTS)
    list(TRANSFORM environment REPLACE "detect_stack_use_after_return=1" "detect_stack_use_after_return=0")
  endif()
  set_tests_properties(${name}${ZF_TEST_SUFFIX} PROPERTIES
    LABELS "${ARG_LABELS}${ZF_TEST_SUFFIX}" TIMEOUT ${ZF_TEST_TIMEOUT} ENVIRONMENT "${environment}")
  if(ZEROFLEET_SANITIZE)
    # These take longest, so they begin first: then a run does not end with one core idle.
    set_tests_properties(${name}${ZF_TEST_SUFFIX} PROPERTIES COST 100)
  endif()
endfunction()

# zf_fuzzer(NAME SOURCES x_fuzz.cc DEPS x): a libFuzzer target; clang only. The coverage of the libraries in DEPS guides it. As a
# test it runs for ZEROFLEET_FUZZ_SECONDS from the inputs in tests/fuzz/corpus/NAME, without _fuzz; inputs that it finds stay in the
# build folder.
function(zf_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT ZEROFLEET_FUZZERS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(sanitized_tests ${name})
  target_link_libraries(${name} PRIVATE zerofleet_options ${ARG_DEPS})
  foreach(library IN LISTS ARG_DEPS)
    set_property(TARGET ${library} PROPERTY ZF_PARSES ON)
    # The options that -fsanitize=fuzzer-no-link stands for: with that option itself, precompiled headers would need it too.
    target_compile_options(${library} PRIVATE -fsanitize-coverage=inline-8bit-counters,indirect-calls,pc-table,trace-cmp)
  endforeach()
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set(found ${CMAKE_BINARY_DIR}/fuzz/${name})
  file(MAKE_DIRECTORY ${found})
  string(REGEX REPLACE "_fuzz$" "" corpus ${name})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
  if(NOT EXISTS ${corpus})
    set(corpus)
  endif()
  add_test(NAME ${name} WORKING_DIRECTORY ${found}
    COMMAND ${name} -max_total_time=${ZEROFLEET_FUZZ_SECONDS} -timeout=30 -rss_limit_mb=2048 -max_len=65536
            -print_final_stats=1 ${found} ${corpus})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300 ENVIRONMENT "${ZF_SANITIZER_ENVIRONMENT}")
endfunction()
