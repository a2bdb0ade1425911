# Runs at install time: writes the manual page and the shells' completions, which `program` prints; see Bundle.cmake.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

function(write_output file)
  cmake_path(GET file PARENT_PATH directory)
  file(MAKE_DIRECTORY ${root}/${directory})
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${root}/${file} COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "Installing: ${root}/${file}")
endfunction()

write_output(share/man/man1/zerofleet.1 help --man)
write_output(share/bash-completion/completions/zerofleet completion bash)
write_output(share/zsh/site-functions/_zerofleet completion zsh)
write_output(share/fish/vendor_completions.d/zerofleet.fish completion fish)
