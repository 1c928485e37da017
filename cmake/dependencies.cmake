# What the library needs, with the least versions that it was made for. On Debian and Ubuntu cmake/setup.sh installs all.

# tapegrad_require(<package> <version> <Debian package>): finds the package or stops, saying what to install.
macro(tapegrad_require package version debian)
  find_package(${package} CONFIG QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "tapegrad needs ${package} ${version} or newer, which was not found. "
                        "On Debian and Ubuntu: apt-get install ${debian}. Elsewhere: install it, and name its prefix in CMAKE_PREFIX_PATH.")
  elseif(${package}_VERSION VERSION_LESS ${version})
    message(FATAL_ERROR "tapegrad needs ${package} ${version} or newer; found ${${package}_VERSION} in ${${package}_DIR}. "
                        "Install a newer one, and name its prefix in CMAKE_PREFIX_PATH.")
  endif()
endmacro()

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  message(FATAL_ERROR "tapegrad needs g++ 11 or clang++ 14, or newer; this is ${CMAKE_CXX_COMPILER_ID} "
                      "${CMAKE_CXX_COMPILER_VERSION}. Choose another with -DCMAKE_CXX_COMPILER=...")
endif()

find_package(Threads REQUIRED)
tapegrad_require(fmt 8.1 libfmt-dev)
tapegrad_require(xsimd 8.1 libxsimd-dev)
tapegrad_require(xtensor 0.24 libxtensor-dev)
tapegrad_require(nlohmann_json 3.9 nlohmann-json3-dev)

find_path(XTENSOR_BLAS_INCLUDE_DIR xflens/cxxblas/cxxblas.cxx)
if(NOT XTENSOR_BLAS_INCLUDE_DIR)
  message(FATAL_ERROR "tapegrad needs xtensor-blas 0.20 or newer, which was not found. On Debian and Ubuntu: apt-get "
                      "install libxtensor-blas-dev. Elsewhere: install it, and name its prefix in CMAKE_PREFIX_PATH.")
endif()
mark_as_advanced(XTENSOR_BLAS_INCLUDE_DIR)

include(${CMAKE_CURRENT_LIST_DIR}/FindOpenBLAS.cmake)
if(NOT OpenBLAS_FOUND)
  message(FATAL_ERROR "tapegrad needs OpenBLAS 0.3.10 or newer; ${OpenBLAS_NOT_FOUND_MESSAGE}. On Debian and Ubuntu: "
                      "apt-get install libopenblas-dev. Elsewhere: install it, and name its prefix in CMAKE_PREFIX_PATH.")
endif()
message(STATUS "tapegrad ${PROJECT_VERSION}: OpenBLAS ${OpenBLAS_VERSION} (${OpenBLAS_REAL_PATH}), xtensor ${xtensor_VERSION}, "
               "xsimd ${xsimd_VERSION}, fmt ${fmt_VERSION}")
