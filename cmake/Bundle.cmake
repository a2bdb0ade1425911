# `cmake --install build --prefix OUT` makes one folder that runs wherever it is put: of the build machine's packages it needs
# only glibc. docs/gpu.md says which version, and how to pack the folder.
#
#   bin/zerofleet         the product
#   lib/                  every shared library it needs that is not glibc's or the GPU driver's
#   lib/ucx/              UCX's transports, which libucs looks for next to itself
#   libexec/              tests that show that a machine's GPU computes what it should (component gpu-suite)
#   share/man/man1/       the manual page
#   share/bash-completion/completions/, share/zsh/site-functions/, share/fish/vendor_completions.d/
#                         completion for the three shells
#   share/zerofleet/      the configuration's JSON schema
#   share/gpu-suite/      bench/gpu_suite.sh, which runs those tests, and what it reads (component gpu-suite)
#
# The run path is a DT_RPATH: unlike a DT_RUNPATH it also applies to what the libraries need from one another, and it precedes
# LD_LIBRARY_PATH, which on GPU machines often names other builds of the same libraries.
option(ZEROFLEET_BUNDLE_CUDA "Put cuBLASLt, cuDNN and NCCL into the bundle, for container images" OFF)

set(zf_suite_tests device_test cuda_test collective_test zero_test trainer_test pytorch_parity_test)
set(zf_bundled_programs zerofleet)
foreach(test IN LISTS zf_suite_tests)
  if(TARGET ${test})
    list(APPEND zf_bundled_programs ${test})
  endif()
endforeach()
foreach(program IN LISTS zf_bundled_programs)
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
  if(program STREQUAL "zerofleet")
    install(TARGETS zerofleet RUNTIME DESTINATION bin COMPONENT zerofleet)
  else()
    install(TARGETS ${program} RUNTIME DESTINATION libexec COMPONENT gpu-suite)
  endif()
  list(APPEND zf_bundled_files "$<TARGET_FILE:${program}>")
endforeach()

install(PROGRAMS bench/gpu_suite.sh bench/gpu_suite.py bench/gpu_checks.py bench/gpu_report.py
  DESTINATION share/gpu-suite/bench COMPONENT gpu-suite)
install(PROGRAMS bench/peers/torch_gpt2.py DESTINATION share/gpu-suite/bench/peers COMPONENT gpu-suite)
install(DIRECTORY tests/oracle/data DESTINATION share/gpu-suite/tests/oracle COMPONENT gpu-suite)

# No executable names these: UCX opens its transports at run time, and the product the vendor's libraries.
cmake_path(GET DNNL_LIBRARY PARENT_PATH zf_library_directory)
# rdmacm, which connects to peers by IP address, is never used: workers exchange addresses through the coordinator.
file(GLOB zf_ucx_modules ${zf_library_directory}/ucx/libuc*_*.so.0)
list(FILTER zf_ucx_modules EXCLUDE REGEX rdmacm)
set(zf_opened_libraries)
if(ZEROFLEET_BUNDLE_CUDA AND NOT ZEROFLEET_CUDA STREQUAL "ON")
  message(FATAL_ERROR "ZEROFLEET_BUNDLE_CUDA needs ZEROFLEET_CUDA=ON, not ${ZEROFLEET_CUDA}")
elseif(ZEROFLEET_BUNDLE_CUDA)
  # cuDNN compiles attention for the GPU it finds, with NVRTC, which it opens at run time.
  foreach(name cublasLt cudnn cudnn_graph cudnn_engines_precompiled cudnn_engines_runtime_compiled cudnn_heuristic nccl
          nvrtc nvrtc-builtins)
    find_library(ZEROFLEET_BUNDLE_${name} ${name} HINTS ${zf_cuda_libraries} REQUIRED)
    list(APPEND zf_opened_libraries ${ZEROFLEET_BUNDLE_${name}})
  endforeach()
endif()

list(JOIN zf_bundled_files "\" \"" zf_bundled_files)
install(CODE "
  set(programs \"${zf_bundled_files}\")
  set(ucx_modules \"${zf_ucx_modules}\")
  set(bundle_cuda ${ZEROFLEET_BUNDLE_CUDA})
  set(opened_libraries \"${zf_opened_libraries}\")
  set(strip \"${CMAKE_STRIP}\")
  set(objdump \"${CMAKE_OBJDUMP}\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/InstallLibraries.cmake\")"
  COMPONENT zerofleet)

# The manual and completions, which the program prints about itself.
install(CODE "
  set(program \"$<TARGET_FILE:zerofleet>\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/InstallManual.cmake\")"
  COMPONENT zerofleet)
install(FILES docs/config.schema.json DESTINATION share/zerofleet COMPONENT zerofleet)
