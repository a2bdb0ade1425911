# Decides whether the GPU path is built, and says so in one line.
#
# ZEROFLEET_CUDA
#   ON        with nvcc; the default where nvcc is found
#   OFF       the CPU product alone
#   EMULATED  the GPU path's own code on host threads, with host versions of the vendor's libraries: for tests of
#             kernels and of what drives them on machines without a GPU; the default of sanitizer builds where the
#             toolkit's headers are found
find_program(ZEROFLEET_NVCC nvcc PATHS /usr/local/cuda/bin)
if(NOT ZEROFLEET_NVCC)
  set(zf_cuda_default OFF)
elseif(ZEROFLEET_SANITIZE)
  set(zf_cuda_default EMULATED)
else()
  set(zf_cuda_default ON)
endif()
set(ZEROFLEET_CUDA ${zf_cuda_default} CACHE STRING "GPU path: ON, OFF or EMULATED")
set_property(CACHE ZEROFLEET_CUDA PROPERTY STRINGS ON OFF EMULATED)

if(NOT ZEROFLEET_CUDA)
  message(STATUS "CUDA: building the CPU product, without the GPU path")
  return()
endif()
if(NOT ZEROFLEET_NVCC)
  message(FATAL_ERROR "ZEROFLEET_CUDA=${ZEROFLEET_CUDA} needs nvcc, which is neither on the PATH nor in /usr/local/cuda/bin")
endif()
cmake_path(GET ZEROFLEET_NVCC PARENT_PATH zf_cuda_bin)
cmake_path(GET zf_cuda_bin PARENT_PATH zf_cuda_root)
find_path(ZEROFLEET_CUDA_INCLUDE NAMES cublasLt.h PATHS ${zf_cuda_root}/include REQUIRED)
find_path(ZEROFLEET_CUDNN_INCLUDE NAMES cudnn_graph.h PATHS ${zf_cuda_root}/include REQUIRED)
find_path(ZEROFLEET_NCCL_INCLUDE NAMES nccl.h PATHS ${zf_cuda_root}/include REQUIRED)

# What the folders that include the vendor's headers link: the headers and, for real builds, the runtime. The other
# libraries are opened when a GPU is first used, so that the executable starts as fast, and as small, as without them.
add_library(zf_cuda_sdk INTERFACE)
target_include_directories(zf_cuda_sdk SYSTEM INTERFACE
  ${ZEROFLEET_CUDA_INCLUDE} ${ZEROFLEET_CUDNN_INCLUDE} ${ZEROFLEET_NCCL_INCLUDE})

if(ZEROFLEET_CUDA STREQUAL "EMULATED")
  message(STATUS "CUDA: emulating the GPU path on the host, for tests")
  return()
endif()
set(CMAKE_CUDA_COMPILER ${ZEROFLEET_NVCC})
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
enable_language(CUDA)
# CMake 3.25 does not know that this nvcc takes C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo -DNDEBUG")
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter -Werror=all-warnings")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
target_link_libraries(zf_cuda_sdk INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
message(STATUS "CUDA ${CUDAToolkit_VERSION}: building the GPU path for sm_80, sm_90 and PTX")
