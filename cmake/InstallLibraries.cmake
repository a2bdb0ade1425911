# Runs at install time: copies the shared libraries that a bundle's programs need into its lib/; see Bundle.cmake, which sets
# `programs`, `ucx_modules`, `opened_libraries`, `bundle_cuda`, `strip` and `objdump`.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

# The libraries of glibc and of the driver belong to the machine.
set(of_the_machine
  "^ld-linux" "^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|nss_[a-z]+|thread_db|BrokenLocale)\\.so" "^linux-vdso"
  "^libcuda\\.so" "^libnvidia")
if(NOT bundle_cuda)
  list(APPEND of_the_machine "^lib(cublas|cublasLt|cudart|cudnn[a-z_]*|nccl|nvrtc|nvJitLink)\\.so")
endif()
# Only programs that were built are installed: the product alone needs none of the suite's tests.
foreach(program IN LISTS programs)
  if(EXISTS ${program})
    list(APPEND built ${program})
  endif()
endforeach()
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${built} LIBRARIES ${ucx_modules} ${opened_libraries}
  RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES ${of_the_machine})
if(missing)
  message(FATAL_ERROR "These libraries are needed and not there: ${missing}")
endif()

# Copies a library under the name that programs request, which may be a link, with the contents of the link's target.
function(copy_library file directory)
  cmake_path(GET file FILENAME name)
  file(REAL_PATH ${file} real)
  file(MAKE_DIRECTORY ${directory})
  file(COPY_FILE ${real} ${directory}/${name} ONLY_IF_DIFFERENT)
  message(STATUS "Installing: ${directory}/${name}")
endfunction()

# Copies a library that is opened at run time under the name inside the file (SONAME), by which it is requested.
function(copy_opened_library file directory)
  execute_process(COMMAND ${objdump} -p ${file} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^\n ]+)" unused "${headers}")
  cmake_path(GET file PARENT_PATH parent)
  copy_library(${parent}/${CMAKE_MATCH_1} ${directory})
endfunction()

foreach(file IN LISTS found)
  copy_library(${file} ${root}/lib)
endforeach()
foreach(file IN LISTS ucx_modules)
  copy_library(${file} ${root}/lib/ucx)
endforeach()
foreach(file IN LISTS opened_libraries)
  copy_opened_library(${file} ${root}/lib)
endforeach()

file(GLOB installed_programs ${root}/bin/* ${root}/libexec/*)
foreach(program IN LISTS installed_programs)
  execute_process(COMMAND ${strip} --strip-debug ${program} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
