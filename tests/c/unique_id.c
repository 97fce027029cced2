// Ranks meet by an id, or by an all-gather of the program's own, and wrong arguments are refused.
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

// Sanitizers do not bear children of a process with threads: their locks hang, and what the threads had seems leaked.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { sanitized = 1 };
#elif defined(__has_feature)
enum { sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) };
#else
enum { sanitized = 0 };
#endif

enum { most_ranks = 3, slot = 512 };

/// Memory of all ranks: the program's own way to exchange bytes.
static struct shared {
  pthread_barrier_t barrier;
  tutti_unique_id id;
  char slots[most_ranks][slot];
  int calls;
} * shared;

struct place {
  int rank;
  int ranks;
  int32_t answer;  // of all_gather
  int mixed_up;    // it puts bytes in wrong places
};

static int32_t all_gather(const void* mine, void* all, uint64_t bytes, void* context) {
  const struct place* const place = context;
  if (bytes > slot) return 1;
  memcpy(shared->slots[place->rank], mine, bytes);
  pthread_barrier_wait(&shared->barrier);
  for (int k = 0; k < place->ranks; ++k) {
    const int from = place->mixed_up ? place->ranks - 1 - k : k;
    memcpy((char*)all + (uint64_t)k * bytes, shared->slots[from], bytes);
  }
  pthread_barrier_wait(&shared->barrier);
  if (place->rank == 0) ++shared->calls;
  return place->answer;
}

static void sum_up(tutti_comm* comm, int rank, int ranks) {
  int32_t value = rank;
  if (!comm) return;
  CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
  CHECK(value == ranks * (ranks - 1) / 2);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
}

static int by_id(int rank, int ranks) {
  tutti_comm* comm = NULL;
  const tutti_connect_options options = {
      .size = sizeof options, .rank = rank, .ranks = ranks, .id = &shared->id, .setup_timeout_ms = 30000};
  // Any rank may make it, here the last one.
  if (rank == ranks - 1) CHECK(tutti_unique_id_create(&shared->id) == TUTTI_OK);
  pthread_barrier_wait(&shared->barrier);
  CHECK(tutti_connect(&options, &comm) == TUTTI_OK);
  if (rank == ranks - 1)
    CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "has used this id", tutti_connect(&options, &(tutti_comm*){NULL}));
  sum_up(comm, rank, ranks);
  return failures;
}

/// A rank with a wrong variable fails before it has met the others, which learn of it long before their deadline.
static int with_wrong(const char* name, const char* value, const char* words, int rank, int ranks) {
  tutti_comm* comm = NULL;
  tutti_connect_options options = {
      .size = sizeof options, .rank = rank, .ranks = ranks, .id = &shared->id, .setup_timeout_ms = 300000};
  if (rank == 0) CHECK(tutti_unique_id_create(&shared->id) == TUTTI_OK);
  pthread_barrier_wait(&shared->barrier);
  if (rank == ranks - 1) {
    unsetenv("TUTTI_SECRET");
    setenv(name, value, 1);
    options.setup_timeout_ms = 0;
    CHECK_FAILS(TUTTI_INVALID_ARGUMENT, words, tutti_connect(&options, &comm));
  } else {
    CHECK_FAILS(TUTTI_RENDEZVOUS, words, tutti_connect(&options, &comm));
  }
  return failures;
}

static int with_wrong_transport(int rank, int ranks) {
  return with_wrong("TUTTI_TRANSPORT", "pigeons", "pigeons", rank, ranks);
}
static int with_wrong_timeout(int rank, int ranks) { return with_wrong("TUTTI_TIMEOUT", "soon", "soon", rank, ranks); }
static int with_wrong_secret_file(int rank, int ranks) {
  return with_wrong("TUTTI_SECRET_FILE", "/no/secret", "/no/secret", rank, ranks);
}
static int with_tls_but_no_secret(int rank, int ranks) {
  return with_wrong("TUTTI_TLS", "1", "needs a secret", rank, ranks);
}

/// Rank 0 cannot make an id for all_gather, and the others learn why.
static int with_wrong_interface(int rank, int ranks) {
  tutti_comm* comm = NULL;
  struct place place = {rank, ranks, 0, 0};
  const tutti_connect_options options = {.size = sizeof options,
                                         .rank = rank,
                                         .ranks = ranks,
                                         .all_gather = all_gather,
                                         .all_gather_context = &place,
                                         .setup_timeout_ms = 300000};
  tutti_error_details details = {.size = sizeof details};
  if (rank == 0) setenv("TUTTI_SOCKET_IFNAME", "nowhere", 1);
  if (rank == 0) {
    CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "nowhere", tutti_connect(&options, &comm));
  } else {
    CHECK_FAILS(TUTTI_RENDEZVOUS, "rank 0 could not open a place to meet: ", tutti_connect(&options, &comm));
    CHECK(strstr(tutti_last_error(), "nowhere"));
    CHECK(tutti_last_error_details(&details) == TUTTI_OK && details.rank == 0);
  }
  return failures;
}

/// The parent of the ranks has made it, and serves.
static int by_id_of_parent(int rank, int ranks) {
  tutti_comm* comm = NULL;
  const tutti_connect_options options = {
      .size = sizeof options, .rank = rank, .ranks = ranks, .id = &shared->id, .setup_timeout_ms = 30000};
  CHECK(tutti_connect(&options, &comm) == TUTTI_OK);
  sum_up(comm, rank, ranks);
  return failures;
}

static int by_all_gather(int rank, int ranks) {
  tutti_comm* comm = NULL;
  struct place place = {rank, ranks, 0, 0};
  tutti_connect_options options = {.size = sizeof options,
                                   .rank = rank,
                                   .ranks = ranks,
                                   .all_gather = all_gather,
                                   .all_gather_context = &place,
                                   .setup_timeout_ms = 30000};
  CHECK(tutti_connect(&options, &comm) == TUTTI_OK);
  sum_up(comm, rank, ranks);
  CHECK(rank != 0 || shared->calls == 1);
  place.answer = 17;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "all_gather has failed with 17", tutti_connect(&options, &comm));
  place.answer = 0;
  place.mixed_up = 1;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "in place 0", tutti_connect(&options, &comm));
  return failures;
}

static int refused(int rank, int ranks) {
  tutti_comm* comm = NULL;
  tutti_unique_id nothing;
  tutti_connect_options options = {.size = sizeof options, .id = &nothing};
  (void)rank, (void)ranks;
  memset(&nothing, 7, sizeof nothing);
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "need rank and ranks", tutti_connect(&options, &comm));
  options.ranks = 2;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "no id", tutti_connect(&options, &comm));
  options.rendezvous = "file:///tmp/tutti-nothing";
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "give one of them", tutti_connect(&options, &comm));
  CHECK(comm == NULL);
  return failures;
}

int main(void) {
  pthread_barrierattr_t between_processes;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  pthread_barrierattr_init(&between_processes);
  pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &between_processes, most_ranks);
  int wrong = run_ranks(1, -1, refused);
  wrong += run_ranks(most_ranks, -1, by_id);
  wrong += run_ranks(most_ranks, -1, with_wrong_transport);
  wrong += run_ranks(most_ranks, -1, with_wrong_timeout);
  wrong += run_ranks(most_ranks, -1, with_wrong_secret_file);
  wrong += run_ranks(most_ranks, -1, with_tls_but_no_secret);
  wrong += run_ranks(most_ranks, -1, by_all_gather);
  wrong += run_ranks(most_ranks, -1, with_wrong_interface);
  if (!sanitized) {
    CHECK(tutti_unique_id_create(&shared->id) == TUTTI_OK);
    wrong += run_ranks(most_ranks, -1, by_id_of_parent);
  }
  return wrong != 0 || failures != 0;
}
