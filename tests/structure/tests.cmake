# Tests of the source tree itself.
foreach(name layering size headers docs coverage run_here examples)
  add_test(NAME structure.${name} COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/${name}.sh ${PROJECT_SOURCE_DIR}
                                          ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
endforeach()
set(names structure.layering structure.size structure.headers structure.docs structure.coverage structure.run_here structure.examples)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_test(NAME structure.compile_time COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/compile_time.sh ${PROJECT_SOURCE_DIR}
                                               ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
  list(APPEND names structure.compile_time)
endif()
if(NOT BUILD_SHARED_LIBS)
  add_test(NAME structure.symbols COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/symbols.sh $<TARGET_FILE:tapegrad>)
  list(APPEND names structure.symbols)
endif()
set_tests_properties(${names} PROPERTIES LABELS structure TIMEOUT 600)
if(TEST structure.compile_time)
  set_tests_properties(structure.compile_time PROPERTIES RUN_SERIAL ON)
endif()
