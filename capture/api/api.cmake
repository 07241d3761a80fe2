# libkvreplay: the C API as a shared library, which shows nothing but its functions; and what installing puts where.
add_library(libkvreplay SHARED capture/api/kvreplay.cpp capture/api/host_vectors.cpp
            $<$<BOOL:${KVREPLAY_CUDA}>:capture/cuda/device_memory.cpp>)
set_target_properties(libkvreplay PROPERTIES OUTPUT_NAME kvreplay VERSION ${PROJECT_VERSION} SOVERSION 0
  CXX_VISIBILITY_PRESET hidden PUBLIC_HEADER capture/api/kvreplay.h)
target_include_directories(libkvreplay INTERFACE ${PROJECT_SOURCE_DIR}/capture/api)
target_link_libraries(libkvreplay PRIVATE kvreplay_capture)
target_link_options(libkvreplay PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/capture/api/exports.map)
if(KVREPLAY_CUDA)
  target_compile_definitions(libkvreplay PRIVATE KVREPLAY_CUDA)
  target_link_libraries(libkvreplay PRIVATE CUDA::cudart_static)
endif()
# What the library is made of; the program that is linked of the same pays nothing for it.
set_target_properties(kvreplay_capture kvreplay_traces PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(library capture traces)
  target_compile_options(kvreplay_${library} PRIVATE -fno-semantic-interposition)
endforeach()

include(GNUInstallDirs)
file(RELATIVE_PATH include_from_lib ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(capture/api/kvreplay.pc.in kvreplay.pc @ONLY)
install(TARGETS kvreplay libkvreplay)
install(FILES ${PROJECT_BINARY_DIR}/kvreplay.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES policies/kvreplay_policy.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The Python package carries both (pyproject.toml).
install(TARGETS kvreplay RUNTIME DESTINATION kvreplay/bin COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS libkvreplay LIBRARY DESTINATION kvreplay/lib COMPONENT python NAMELINK_SKIP EXCLUDE_FROM_ALL
        PUBLIC_HEADER DESTINATION kvreplay/include COMPONENT python EXCLUDE_FROM_ALL)
