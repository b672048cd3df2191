# Install and export: find_package(attune) gives attune::attune.
include(CMakePackageConfigHelpers)

install(TARGETS attune EXPORT attune-targets)
if(TARGET attune_program)
  install(TARGETS attune_program)
endif()
install(DIRECTORY include/attune TYPE INCLUDE)
install(EXPORT attune-targets NAMESPACE attune:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
configure_package_config_file(cmake/attune-config.cmake.in ${PROJECT_BINARY_DIR}/attune-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attune-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attune-config.cmake ${PROJECT_BINARY_DIR}/attune-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
if(ATTUNE_HAS_CUDA)
  install(FILES cmake/FindCUDNN.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
endif()
