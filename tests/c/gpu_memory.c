// Every function of <tutti/c_gpu.h>: with a GPU, a real one or the fake, ranks gather into each other's memory; without
// one each says so. GPU_MEMORY_IS_SHARED=1: memory has to be shared.
#include <dlfcn.h>
#include <tutti/c_gpu.h>

#include "check.h"

enum { invalid = TUTTI_INVALID_ARGUMENT, part = 1000, most = 8 };

static char folder[] = "/tmp/tutti-c-XXXXXX";
static char url[64];

// ---- The driver, in so far as a program needs it here

typedef unsigned long long address;
typedef int (*get_function)(const char*, void**, int, uint64_t, int*);

static void* function(const char* name, int version) {
  static get_function get = NULL;
  void* found = NULL;
  if (!get) *(void**)&get = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  CHECK(get && get(name, &found, version, 1, NULL) == 0 && found);
  return found;
}

static int (*mem_alloc)(address*, size_t);
static int (*mem_free)(address);
static int (*mem_copy)(address, address, size_t, void*);
static int (*synchronize)(void*);

static void enter_context(int rank) {
  int (*get_count)(int*), (*retain)(void**, int), (*push)(void*), count = 0;
  void* context = NULL;
  *(void**)&get_count = function("cuDeviceGetCount", 2000);
  *(void**)&retain = function("cuDevicePrimaryCtxRetain", 7000);
  *(void**)&push = function("cuCtxPushCurrent", 4000);
  *(void**)&mem_alloc = function("cuMemAlloc", 3020);
  *(void**)&mem_free = function("cuMemFree", 3020);
  *(void**)&mem_copy = function("cuMemcpyAsync", 4000);
  *(void**)&synchronize = function("cuStreamSynchronize", 2000);
  CHECK(get_count(&count) == 0 && retain(&context, rank % count) == 0 && push(context) == 0);
}

static void copy(const void* to, const void* from, size_t bytes) {
  CHECK(mem_copy((address)(uintptr_t)to, (address)(uintptr_t)from, bytes, NULL) == 0 && synchronize(NULL) == 0);
}

// ---- Ranks

static int32_t is_shared_here(void) { return getenv("GPU_MEMORY_IS_SHARED") != NULL; }

static void gather(tutti_comm* comm, int rank, int ranks, int32_t* in, int32_t* out) {
  const tutti_call_options options = {.size = sizeof options, .algorithm = "direct", .on_device = 1};
  int32_t own[part], all[most * part];
  for (int i = 0; i < part; ++i) own[i] = rank * part + i;
  copy(in, own, sizeof own);
  CHECK(tutti_all_gather(comm, in, out, part, TUTTI_I32, &options) == TUTTI_OK);
  copy(all, out, (size_t)ranks * sizeof own);
  for (int i = 0; i < ranks * part; ++i) CHECK(all[i] == i);
}

static void with_gpu(tutti_comm* comm, int rank, int ranks) {
  const uint64_t bytes = part * sizeof(int32_t), all = (uint64_t)ranks * bytes;
  tutti_gpu_array *in = NULL, *out = NULL, *empty = NULL;
  tutti_gpu_registration *first = NULL, *second = NULL;
  void *from = NULL, *to = NULL, *none = &none;
  int32_t shared = -1;
  enter_context(rank);
  CHECK(tutti_gpu_allocate(comm, bytes, &in) == TUTTI_OK && tutti_gpu_allocate(comm, all, &out) == TUTTI_OK);
  CHECK(tutti_gpu_array_data(in, &from) == TUTTI_OK && tutti_gpu_array_data(out, &to) == TUTTI_OK);
  CHECK(from && to && from != to);
  CHECK(tutti_gpu_array_is_shared(out, &shared) == TUTTI_OK && shared == is_shared_here());
  gather(comm, rank, ranks, from, to);
  CHECK(tutti_gpu_allocate(comm, 0, &empty) == TUTTI_OK && tutti_gpu_array_data(empty, &none) == TUTTI_OK && !none);
  CHECK(tutti_gpu_array_free(empty) == TUTTI_OK);
  CHECK_FAILS(TUTTI_MISMATCH, "give all ranks the same count", tutti_gpu_allocate(comm, 8 + (uint64_t)rank, &empty));
  CHECK(empty == NULL);

  address own = 0;
  CHECK(mem_alloc(&own, all + bytes) == 0);
  int32_t* const data = (int32_t*)(uintptr_t)own;
  CHECK(tutti_gpu_register(comm, data, all + bytes, &first) == TUTTI_OK);
  CHECK(tutti_gpu_registration_is_shared(first, &shared) == TUTTI_OK && shared == is_shared_here());
  gather(comm, rank, ranks, data, data + part);
  CHECK(tutti_gpu_deregister(comm, first) == TUTTI_OK);
  gather(comm, rank, ranks, data, data + part);  // copied
  CHECK_FAILS(invalid, "the registration is empty", tutti_gpu_deregister(comm, first));
  CHECK(tutti_gpu_registration_free(first) == TUTTI_OK);
  if (rank == 1)
    CHECK_FAILS(invalid, "only memory of a GPU can be registered", tutti_gpu_register(comm, &own, sizeof own, &second));
  else
    CHECK_FAILS(TUTTI_MISMATCH, "rank 1 cannot register", tutti_gpu_register(comm, data, sizeof own, &second));
  CHECK(second == NULL);
  // Again, at another place of it; then handles are freed while other ranks may have the memory open.
  CHECK(tutti_gpu_register(comm, data, all, &first) == TUTTI_OK);
  CHECK(tutti_gpu_deregister(comm, first) == TUTTI_OK && tutti_gpu_registration_free(first) == TUTTI_OK);
  CHECK(mem_free(own) == 0);
  CHECK(tutti_gpu_register(comm, from, bytes, &first) == (is_shared_here() ? invalid : TUTTI_OK));  // is shared already
  CHECK(tutti_gpu_registration_free(first) == TUTTI_OK);
  CHECK(tutti_gpu_array_free(in) == TUTTI_OK);
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK && tutti_comm_free(comm) == TUTTI_OK);
  CHECK(tutti_gpu_array_free(out) == TUTTI_OK);  // outlives the communicator
}

static void without_gpu(tutti_comm* comm, const char* why_not) {
  tutti_gpu_array* array = NULL;
  tutti_gpu_registration* registration = NULL;
  char words[200];
  snprintf(words, sizeof words, "%s", why_not);
  CHECK_FAILS(TUTTI_UNSUPPORTED, words, tutti_gpu_allocate(comm, 8, &array));
  CHECK_FAILS(TUTTI_UNSUPPORTED, words, tutti_gpu_register(comm, words, 8, &registration));
  CHECK(array == NULL && registration == NULL);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
}

static void wrong_handles(tutti_comm* comm) {
  tutti_gpu_array* array = NULL;
  tutti_gpu_registration* registration = NULL;
  void* data = NULL;
  int32_t shared = 0;
  CHECK_FAILS(invalid, "comm is NULL", tutti_gpu_allocate(NULL, 8, &array));
  CHECK_FAILS(invalid, "array is NULL", tutti_gpu_allocate(comm, 8, NULL));
  CHECK_FAILS(invalid, "array is NULL", tutti_gpu_array_data(NULL, &data));
  CHECK_FAILS(invalid, "array is NULL", tutti_gpu_array_is_shared(NULL, &shared));
  CHECK_FAILS(invalid, "comm is NULL", tutti_gpu_register(NULL, &data, 8, &registration));
  CHECK_FAILS(invalid, "registration is NULL", tutti_gpu_register(comm, &data, 8, NULL));
  CHECK_FAILS(invalid, "registration is NULL", tutti_gpu_registration_is_shared(NULL, &shared));
  CHECK_FAILS(invalid, "registration is NULL", tutti_gpu_deregister(comm, NULL));
  CHECK(tutti_gpu_array_free(NULL) == TUTTI_OK && tutti_gpu_registration_free(NULL) == TUTTI_OK);
}

static int one_rank(int rank, int ranks) {
  const char* why_not = NULL;
  tutti_comm* const comm = connected(url, rank, ranks);
  wrong_handles(comm);
  if (tutti_gpu_available(&why_not))
    with_gpu(comm, rank, ranks);
  else
    without_gpu(comm, why_not);
  return failures;
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  snprintf(url, sizeof url, "file://%s/meeting", folder);
  const int wrong = run_ranks(3, -1, one_rank);
  char command[80];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
  return wrong + failures == 0 ? 0 : 1;
}
