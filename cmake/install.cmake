# The installed package: find_package(tapegrad) gives tapegrad::tapegrad, and its user needs no further flags.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tapegrad_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapegrad)
install(TARGETS tapegrad EXPORT tapegradTargets)
install(EXPORT tapegradTargets NAMESPACE tapegrad:: DESTINATION ${tapegrad_package_dir})

# Kernels are private, and so is a header that needs them.
file(GLOB_RECURSE tapegrad_headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     core/*.hpp autograd/*.hpp nn/*.hpp optim/*.hpp training/*.hpp)
file(GLOB tapegrad_root_headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS *.hpp)
foreach(header IN LISTS tapegrad_root_headers tapegrad_headers)
  file(STRINGS ${header} needs_kernels REGEX "include <tapegrad/core/kernels/" LIMIT_COUNT 1)
  if(NOT header MATCHES "^core/kernels/" AND NOT needs_kernels)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapegrad/${folder})
  endif()
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tapegradConfig.cmake.in ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
                              INSTALL_DESTINATION ${tapegrad_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapegradConfig.cmake ${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOpenBLAS.cmake DESTINATION ${tapegrad_package_dir})
