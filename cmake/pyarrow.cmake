# Arrow and Parquet come from the pyarrow wheel: headers and shared libraries, no Python at run time.
if(NOT ARROW_DIR)
  execute_process(
    COMMAND sh -c "ls -d ${BALLAST_VENV}/lib/python3*/site-packages/pyarrow"
    OUTPUT_VARIABLE ARROW_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(GLOB ARROW_SO "${ARROW_DIR}/libarrow.so.[0-9]*")
file(GLOB PARQUET_SO "${ARROW_DIR}/libparquet.so.[0-9]*")
if(NOT ARROW_SO OR NOT PARQUET_SO)
  message(FATAL_ERROR "no Arrow found in '${ARROW_DIR}'; run scripts/build, or give -DARROW_DIR=<folder of pyarrow>")
endif()
list(GET ARROW_SO 0 ARROW_SO)
list(GET PARQUET_SO 0 PARQUET_SO)
add_library(ballast_arrow INTERFACE)
target_include_directories(ballast_arrow SYSTEM INTERFACE ${ARROW_DIR}/include)
target_link_libraries(ballast_arrow INTERFACE ${PARQUET_SO} ${ARROW_SO})
