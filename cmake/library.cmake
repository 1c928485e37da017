# The one target, tapegrad::tapegrad.

# Headers are included as <tapegrad/...>: one link to the source root, or headers that forward where links are not allowed.
set(tapegrad_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${tapegrad_include})
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${tapegrad_include}/tapegrad SYMBOLIC RESULT link_result)
if(NOT link_result STREQUAL "0")
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
       *.hpp core/*.hpp autograd/*.hpp nn/*.hpp optim/*.hpp training/*.hpp)
  foreach(header IN LISTS headers)
    file(CONFIGURE OUTPUT ${tapegrad_include}/tapegrad/${header}
         CONTENT "#include \"${PROJECT_SOURCE_DIR}/${header}\"\n" @ONLY)
  endforeach()
endif()

file(GLOB_RECURSE tapegrad_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/core/*.cpp ${PROJECT_SOURCE_DIR}/autograd/*.cpp ${PROJECT_SOURCE_DIR}/nn/*.cpp
     ${PROJECT_SOURCE_DIR}/optim/*.cpp ${PROJECT_SOURCE_DIR}/training/*.cpp)
add_library(tapegrad ${tapegrad_sources})
add_library(tapegrad::tapegrad ALIAS tapegrad)
set_target_properties(tapegrad PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                          POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
target_compile_features(tapegrad PUBLIC cxx_std_20)
target_include_directories(tapegrad PUBLIC $<BUILD_INTERFACE:${tapegrad_include}> $<INSTALL_INTERFACE:include>)
target_link_libraries(tapegrad PUBLIC fmt::fmt PRIVATE OpenBLAS::OpenBLAS Threads::Threads)

# Header-only, so the installed package need not know them. A user of tapegrad/xtensor.hpp gets xtensor's headers here,
# and from the package's own search for them when installed; never its flags.
target_link_libraries(tapegrad PUBLIC $<BUILD_INTERFACE:xtensor>
                               PRIVATE $<BUILD_INTERFACE:xsimd> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
target_include_directories(tapegrad SYSTEM PRIVATE ${XTENSOR_BLAS_INCLUDE_DIR})
target_compile_definitions(tapegrad PRIVATE XTENSOR_USE_XSIMD)

# tapegrad_compile_options(<target>): what our own programs and the library itself are compiled with.
function(tapegrad_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic $<$<BOOL:${TAPEGRAD_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
    # False alarms: in the string class (GCC bug 105651), and in the intrinsics of AVX-512 (105593).
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
endfunction()
tapegrad_compile_options(tapegrad)
# At -O2, which RelWithDebInfo sets, GCC 12 makes vectors of few loops: kernels would take a multiple of their time.
target_compile_options(tapegrad PRIVATE $<$<OR:$<CONFIG:>,$<CONFIG:RelWithDebInfo>>:-O3> $<$<BOOL:${TAPEGRAD_NATIVE}>:-march=native>)
# Without optimisation GCC's intrinsics of AVX-512 are macros that xsimd's vectors don't fit into.
if(NOT CMAKE_CXX_FLAGS_DEBUG MATCHES "-O")
  target_compile_options(tapegrad PRIVATE $<$<CONFIG:Debug>:-Og>)
endif()
