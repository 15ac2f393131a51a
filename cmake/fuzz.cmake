# Fuzz targets: clang's libFuzzer over the host areas, with address and undefined-behaviour checks. No torch is needed.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "BALLAST_FUZZ needs clang (scripts/fuzz brings it); got ${CMAKE_CXX_COMPILER_ID}")
endif()
foreach(target yaml_values tokenizer_json sentencepiece_model tiktoken_ranks safetensors_header checkpoint_manifest json_lines
    expert_load)
  add_executable(fuzz_${target} fuzz/libfuzzer_main.cpp fuzz/input_file.cpp fuzz/tokenizer_use.cpp fuzz/${target}.cpp)
  target_compile_definitions(fuzz_${target} PRIVATE BALLAST_FUZZ_TARGET=${target})
  target_include_directories(fuzz_${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(fuzz_${target} PRIVATE ballast_data ballast_checkpoint ballast_metrics ballast_warnings)
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
endforeach()
