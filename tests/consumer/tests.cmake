# The library as its users get it: installed, and as a part of another build. Each project is configured and built by a
# test (a fixture), and each of its programs is a test.
set(prefix ${CMAKE_CURRENT_BINARY_DIR}/prefix)
set(settings -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE})
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(APPEND settings -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(TAPEGRAD_SANITIZE)
  list(JOIN tapegrad_sanitizers " " flags)
  list(APPEND settings "-DCMAKE_CXX_FLAGS=${flags}")
endif()

add_test(NAME package.install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
set_tests_properties(package.install PROPERTIES LABELS acceptance FIXTURES_SETUP package)

# tapegrad_project_test(<name> <label> <source> <cmake options...>): configures and builds a project.
function(tapegrad_project_test name label source)
  add_test(NAME ${name}.build
           COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${source} ${CMAKE_CURRENT_BINARY_DIR}/${name}
                   --build-generator ${CMAKE_GENERATOR} --build-options ${settings} ${ARGN})
  set_tests_properties(${name}.build PROPERTIES LABELS ${label} FIXTURES_SETUP ${name} FIXTURES_REQUIRED package
                                                TIMEOUT 1500 PROCESSORS 2)
endfunction()

tapegrad_project_test(acceptance acceptance ${CMAKE_CURRENT_SOURCE_DIR}/acceptance -DCMAKE_PREFIX_PATH=${prefix})
file(GLOB programs CONFIGURE_DEPENDS acceptance/*.cpp)
foreach(source IN LISTS programs)
  cmake_path(GET source STEM program)
  add_test(NAME acceptance.${program} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/acceptance/run.sh
                                              ${CMAKE_CURRENT_BINARY_DIR}/acceptance/${program})
  set_tests_properties(acceptance.${program} PROPERTIES LABELS acceptance FIXTURES_REQUIRED acceptance TIMEOUT 900)
endforeach()

if(NOT TAPEGRAD_SANITIZE)
  set(consumer_settings -DCMAKE_PREFIX_PATH=${prefix} -DTAPEGRAD_SOURCE_DIR=${PROJECT_SOURCE_DIR})
  foreach(from package subdirectory)
    tapegrad_project_test(consumer_${from} consumer ${CMAKE_CURRENT_LIST_DIR} -DTAPEGRAD_FROM=${from} ${consumer_settings})
    foreach(program plain kernels xtensor_plain xtensor_vectorised)
      add_test(NAME consumer_${from}.${program} COMMAND ${CMAKE_CURRENT_BINARY_DIR}/consumer_${from}/${program})
      set_tests_properties(consumer_${from}.${program} PROPERTIES LABELS consumer FIXTURES_REQUIRED consumer_${from})
    endforeach()
  endforeach()

  # The README's own project.
  tapegrad_project_test(consumer_training consumer ${CMAKE_CURRENT_LIST_DIR}/training -DCMAKE_PREFIX_PATH=${prefix})
  add_test(NAME consumer_training.arms COMMAND ${CMAKE_CURRENT_BINARY_DIR}/consumer_training/arms)
  set_tests_properties(consumer_training.arms PROPERTIES LABELS consumer FIXTURES_REQUIRED consumer_training
                                                         PASS_REGULAR_EXPRESSION "step 400  loss 0\\.0[0-4]")

  # FetchContent ends in the same add_subdirectory, so configuring is what can go wrong.
  add_test(NAME consumer_fetch.configure
           COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${CMAKE_CURRENT_BINARY_DIR}/consumer_fetch
                   -G ${CMAKE_GENERATOR} -DTAPEGRAD_FROM=fetch ${settings} ${consumer_settings})
  set_tests_properties(consumer_fetch.configure PROPERTIES LABELS consumer)
endif()
