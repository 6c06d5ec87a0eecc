# find_package(torchacc) gives the target torchacc::torchacc: headers and library, wherever this tree lies.
get_filename_component(_torchacc_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_torchacc_prefix "${_torchacc_lib}/@TO_PREFIX@" ABSOLUTE)

if(NOT TARGET torchacc::torchacc)
  add_library(torchacc::torchacc SHARED IMPORTED)
  set_target_properties(torchacc::torchacc PROPERTIES
    IMPORTED_LOCATION "${_torchacc_lib}/libtorchacc.so.@ABI@"
    IMPORTED_SONAME "libtorchacc.so.@ABI@"
    INTERFACE_INCLUDE_DIRECTORIES "${_torchacc_prefix}/include")
endif()

unset(_torchacc_lib)
unset(_torchacc_prefix)
