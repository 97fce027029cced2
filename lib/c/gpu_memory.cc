// Memory of GPUs that all ranks can use, in the C interface.

#include "tutti/gpu_memory.h"

#include <cstdint>
#include <utility>

#include "lib/c/arguments.h"
#include "lib/c/guarded.h"
#include "lib/c/handles.h"
#include "tutti/c_gpu.h"

struct tutti_gpu_array {
  tutti::gpu::Array<std::uint8_t> array;
};

struct tutti_gpu_registration {
  tutti::gpu::Registration registration;
};

using namespace tutti::c_api;
namespace gpu = tutti::gpu;

extern "C" {

tutti_result tutti_gpu_allocate(tutti_comm* comm, uint64_t bytes, tutti_gpu_array** array) {
  return guarded(__func__, [&] {
    given(array, "array") = nullptr;
    *array = new tutti_gpu_array{gpu::allocate<std::uint8_t>(given(comm, "comm").comm, bytes)};
  });
}

tutti_result tutti_gpu_array_data(const tutti_gpu_array* array, void** data) {
  return guarded(__func__, [&] { given(data, "data") = given(array, "array").array.data(); });
}

tutti_result tutti_gpu_array_is_shared(const tutti_gpu_array* array, int32_t* shared) {
  return guarded(__func__, [&] { given(shared, "shared") = given(array, "array").array.is_shared() ? 1 : 0; });
}

tutti_result tutti_gpu_array_free(tutti_gpu_array* array) {
  return guarded(__func__, [&] { delete array; });
}

tutti_result tutti_gpu_register(tutti_comm* comm, void* data, uint64_t bytes, tutti_gpu_registration** registration) {
  return guarded(__func__, [&] {
    given(registration, "registration") = nullptr;
    const gpu::Span<std::uint8_t> memory{static_cast<std::uint8_t*>(data), bytes};
    *registration = new tutti_gpu_registration{gpu::register_memory(given(comm, "comm").comm, memory)};
  });
}

tutti_result tutti_gpu_registration_is_shared(const tutti_gpu_registration* registration, int32_t* shared) {
  return guarded(__func__, [&] {
    given(shared, "shared") = given(registration, "registration").registration.is_shared() ? 1 : 0;
  });
}

tutti_result tutti_gpu_deregister(tutti_comm* comm, tutti_gpu_registration* registration) {
  return guarded(__func__, [&] {
    gpu::Registration& own = given(registration, "registration").registration;
    gpu::deregister_memory(given(comm, "comm").comm, std::move(own));
  });
}

tutti_result tutti_gpu_registration_free(tutti_gpu_registration* registration) {
  return guarded(__func__, [&] { delete registration; });
}

}  // extern "C"
