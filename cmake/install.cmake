# The installed package: find_package(tapegrad) gives tapegrad::tapegrad, and its user needs no further flags.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tapegrad_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapegrad)
install(TARGETS tapegrad EXPORT tapegradTargets)
install(EXPORT tapegradTargets NAMESPACE tapegrad:: DESTINATION ${tapegrad_package_dir})

file(GLOB tapegrad_root_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/*.hpp)
install(FILES ${tapegrad_root_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapegrad)
install(DIRECTORY core autograd nn optim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapegrad
        FILES_MATCHING PATTERN "*.hpp" PATTERN kernels EXCLUDE)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tapegradConfig.cmake.in ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
                              INSTALL_DESTINATION ${tapegrad_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapegradConfig.cmake ${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOpenBLAS.cmake DESTINATION ${tapegrad_package_dir})
