# kvreplay_kernels: the kernels and their launches; kvreplay_cuda: the device. Where there is nvcc (-DKVREPLAY_NVCC=OFF: as if
# there were none); KVREPLAY_CUDA says whether. They compile but have not been run on a GPU.
set(KVREPLAY_CUDA OFF)
find_program(KVREPLAY_NVCC nvcc PATHS /usr/local/cuda/bin)
if(KVREPLAY_NVCC)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)  # 90 without -real carries PTX for what comes after it
  set(CMAKE_CUDA_COMPILER ${KVREPLAY_NVCC})
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(KVREPLAY_NVCC AND CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit 12)  # the first with C++20
endif()
if(CUDAToolkit_FOUND AND NOT TARGET CUDA::cublas)
  message(STATUS "CUDA without cuBLAS: the CUDA runtime is left out")
elseif(CUDAToolkit_FOUND)
  set(KVREPLAY_CUDA ON)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  add_library(kvreplay_kernels STATIC ${PROJECT_SOURCE_DIR}/capture/cuda/kernels.cu)
  set_target_properties(kvreplay_kernels PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
  target_include_directories(kvreplay_kernels PRIVATE ${PROJECT_SOURCE_DIR})
  # Products are fused with sums only where kernels say so, see scores.hpp.
  target_compile_options(kvreplay_kernels PRIVATE --expt-relaxed-constexpr --fmad=false -Werror=all-warnings
    -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror)
  target_link_libraries(kvreplay_kernels PUBLIC CUDA::cudart_static)
  add_library(kvreplay_cuda STATIC ${PROJECT_SOURCE_DIR}/capture/cuda/cuda_device.cpp
              ${PROJECT_SOURCE_DIR}/capture/cuda/cublas.cpp)
  target_compile_definitions(kvreplay_cuda INTERFACE KVREPLAY_CUDA PRIVATE KVREPLAY_CUBLAS="${CUDA_cublas_LIBRARY}")
  target_link_libraries(kvreplay_cuda PUBLIC kvreplay_kernels kvreplay_capture ${CMAKE_DL_LIBS})
endif()
