# The host engine's kernels. Each instruction set has a source of its own, chosen when the program runs.
function(attune_add_host_kernels target)
  set(root ${PROJECT_SOURCE_DIR}/kernels)
  target_sources(${target} PRIVATE
    ${root}/host_base.cpp
    ${root}/host_direct.cpp
    ${root}/host_loops.cpp
    ${root}/host_packed.cpp
    ${root}/host_pool.cpp
    ${root}/host_threads.cpp
  )
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    target_sources(${target} PRIVATE ${root}/host_avx2.cpp ${root}/host_avx512.cpp)
  endif()
  # The tiles count on fused multiplication and addition, and on full-width vectors in every optimised build.
  set(fast -O3 -ffp-contract=fast)
  set_source_files_properties(
    ${root}/host_base.cpp ${root}/host_direct.cpp ${root}/host_loops.cpp ${root}/host_pool.cpp PROPERTIES COMPILE_OPTIONS "${fast}")
  set_source_files_properties(
    ${root}/host_avx2.cpp PROPERTIES COMPILE_OPTIONS "${fast};-mavx2;-mfma")
  set_source_files_properties(
    ${root}/host_avx512.cpp PROPERTIES COMPILE_OPTIONS "${fast};-mavx512f;-mfma;-mprefer-vector-width=512")
endfunction()
