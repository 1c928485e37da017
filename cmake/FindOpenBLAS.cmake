# Finds OpenBLAS with its version, and makes the target OpenBLAS::OpenBLAS. Used by the build and by the installed package.
# Sets OpenBLAS_FOUND, OpenBLAS_VERSION, OpenBLAS_REAL_PATH (links resolved: on Debian it tells the threading variant),
# and OpenBLAS_NOT_FOUND_MESSAGE.
find_library(OpenBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas openblas-pthread openblas-openmp openblas-serial)
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h
          PATH_SUFFIXES openblas openblas-pthread openblas-openmp openblas-serial)
mark_as_advanced(OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR)

set(OpenBLAS_FOUND FALSE)
set(OpenBLAS_VERSION "")
set(OpenBLAS_NOT_FOUND_MESSAGE "no library openblas with openblas_config.h was found")
if(OpenBLAS_LIBRARY AND OpenBLAS_INCLUDE_DIR)
  file(STRINGS "${OpenBLAS_INCLUDE_DIR}/openblas_config.h" OpenBLAS_VERSION REGEX "define OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" OpenBLAS_VERSION "${OpenBLAS_VERSION}")
  if(OpenBLAS_VERSION VERSION_LESS 0.3.10)
    set(OpenBLAS_NOT_FOUND_MESSAGE "found ${OpenBLAS_VERSION} (${OpenBLAS_LIBRARY})")
  else()
    set(OpenBLAS_FOUND TRUE)
    file(REAL_PATH "${OpenBLAS_LIBRARY}" OpenBLAS_REAL_PATH)
    if(NOT TARGET OpenBLAS::OpenBLAS)
      add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
      set_target_properties(OpenBLAS::OpenBLAS PROPERTIES IMPORTED_LOCATION "${OpenBLAS_LIBRARY}")
    endif()
  endif()
endif()
