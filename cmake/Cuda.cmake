# Decides whether the GPU path is built, and says so in one line.
#
# ZEROFLEET_CUDA
#   AUTO      the default: ON where nvcc is found (EMULATED in sanitizer builds), else OFF; decided each time CMake runs
#   ON        with nvcc
#   OFF       the CPU product alone
#   EMULATED  the GPU path's own code on host threads, with host versions of the vendor's libraries: to test kernels
#             and the code that drives them on machines without a GPU
#
# A toolkit that `scripts/setup.sh cuda` put into build/cuda comes first: it exists because the machine's own lacks a part.
set(ZEROFLEET_CUDA AUTO CACHE STRING "GPU path: AUTO, ON, OFF or EMULATED")
set_property(CACHE ZEROFLEET_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
find_program(ZEROFLEET_NVCC nvcc HINTS ${CMAKE_SOURCE_DIR}/build/cuda/bin PATHS /usr/local/cuda/bin)
if(ZEROFLEET_CUDA STREQUAL "AUTO")
  if(NOT ZEROFLEET_NVCC)
    set(ZEROFLEET_CUDA OFF)
  elseif(ZEROFLEET_SANITIZE)
    set(ZEROFLEET_CUDA EMULATED)
  else()
    set(ZEROFLEET_CUDA ON)
  endif()
endif()

if(NOT ZEROFLEET_CUDA)
  message(STATUS "CUDA: building the CPU product, without the GPU path (`scripts/setup.sh cuda` installs what that takes)")
  return()
endif()
if(NOT ZEROFLEET_NVCC)
  message(FATAL_ERROR "ZEROFLEET_CUDA=${ZEROFLEET_CUDA} needs nvcc, which is neither on the PATH nor in /usr/local/cuda/bin; "
    "`scripts/setup.sh cuda` installs it into build/cuda")
endif()
cmake_path(GET ZEROFLEET_NVCC PARENT_PATH zf_cuda_bin)
cmake_path(GET zf_cuda_bin PARENT_PATH zf_cuda_root)
find_path(ZEROFLEET_CUDA_INCLUDE NAMES cublasLt.h HINTS ${zf_cuda_root}/include REQUIRED)
find_path(ZEROFLEET_CUDNN_INCLUDE NAMES cudnn_graph.h HINTS ${zf_cuda_root}/include REQUIRED)
find_path(ZEROFLEET_NCCL_INCLUDE NAMES nccl.h HINTS ${zf_cuda_root}/include REQUIRED)

# The target that folders link to include the vendor's headers: the headers and, for real builds, the runtime. The other
# libraries are opened when a GPU is first used, so that the executable starts as fast, and as small, as without them.
add_library(zf_cuda_sdk INTERFACE)
target_include_directories(zf_cuda_sdk SYSTEM INTERFACE
  ${ZEROFLEET_CUDA_INCLUDE} ${ZEROFLEET_CUDNN_INCLUDE} ${ZEROFLEET_NCCL_INCLUDE})

if(ZEROFLEET_CUDA STREQUAL "EMULATED")
  message(STATUS "CUDA: emulating the GPU path on the host, for tests")
  # Whether the bytes that kernels touch are counted: gcc cannot report loads and stores, and ThreadSanitizer's build does not run the
  # test that needs them.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT ZEROFLEET_SANITIZE STREQUAL "thread")
    set(ZF_COUNTS_ACCESSES ON)
  endif()
  return()
endif()
set(CMAKE_CUDA_COMPILER ${ZEROFLEET_NVCC})
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
enable_language(CUDA)
# CMake 3.25 does not know that this nvcc supports C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
# CMake 3.25's own module for the toolkit fails without a library that CUDA 13 no longer has (nvToolsExt), so it is not used.
find_library(ZEROFLEET_CUDART cudart_static HINTS ${zf_cuda_root}/lib64 ${zf_cuda_root}/lib
  ${zf_cuda_root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib REQUIRED)
cmake_path(GET ZEROFLEET_CUDART PARENT_PATH zf_cuda_libraries)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo -DNDEBUG")
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Werror=all-warnings")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
target_link_libraries(zf_cuda_sdk INTERFACE ${ZEROFLEET_CUDART} ${CMAKE_DL_LIBS} rt)
list(APPEND CMAKE_BUILD_RPATH ${zf_cuda_libraries})
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION}: building the GPU path for sm_80, sm_90 and PTX")
