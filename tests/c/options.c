// Each option of tutti_connect() does something that can be seen.
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <tutti/c_store.h>

#include "check.h"

static char folder[] = "/tmp/tutti-options-XXXXXX";

/// The name of a file in the folder, until the next call with this number.
static const char* in_folder(int number, const char* name) {
  static char paths[2][64];
  snprintf(paths[number], sizeof paths[number], "%s/%s", folder, name);
  return paths[number];
}

static void write_file(const char* name, const char* text) {
  FILE* const file = fopen(in_folder(0, name), "w");
  CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/// The ranks meet in a file of this name.
static tutti_connect_options meet_in(const char* name, int rank, int ranks) {
  static char url[80];
  snprintf(url, sizeof url, "file://%s", in_folder(0, name));
  return (tutti_connect_options){.size = sizeof(tutti_connect_options),
                                 .rank = rank,
                                 .ranks = ranks,
                                 .rendezvous = url,
                                 .setup_timeout_ms = 60000,
                                 .timeout_ms = 60000};
}

static tutti_comm* connected_with(const tutti_connect_options* options) {
  tutti_comm* comm = NULL;
  CHECK(tutti_connect(options, &comm) == TUTTI_OK);
  return comm;
}

static int says(const char* text, const char* wanted) {
  if (strcmp(text, wanted) == 0) return 1;
  fprintf(stderr, "it is \"%s\" and not \"%s\"\n", text, wanted);
  return 0;
}

static int transport(int rank, int ranks) {
  char text[32] = "";
  for (int only_tcp = 0; only_tcp < 2; ++only_tcp) {
    tutti_connect_options options = meet_in(only_tcp ? "tcp" : "any", rank, ranks);
    if (only_tcp) options.transport = "tcp";
    tutti_comm* const comm = connected_with(&options);
    CHECK(tutti_transport_to(comm, 1 - rank, text, sizeof text) == TUTTI_OK);
    CHECK(says(text, only_tcp ? "tcp" : "shm"));
    CHECK(tutti_comm_free(comm) == TUTTI_OK);
  }
  return failures;
}

/// 1 if the numbers of the four ranks are summed up in the order of the ranks; 0 or 2 if in pairs.
static float ordered_sum(tutti_comm* comm, int rank) {
  float value = (const float[]){1e8f, 1, -1e8f, 1}[rank];
  CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_F32, TUTTI_SUM, NULL) == TUTTI_OK);
  return value;
}

static int tuning_and_order(int rank, int ranks) {
  char text[32] = "";
  for (int deterministic = 0; deterministic < 2; ++deterministic) {
    tutti_connect_options options = meet_in(deterministic ? "ordered" : "tuned", rank, ranks);
    options.tuning_file = in_folder(1, "table");
    options.deterministic = deterministic;
    tutti_comm* const comm = connected_with(&options);
    CHECK(tutti_chosen_algorithm(comm, TUTTI_ALL_REDUCE, 4, text, sizeof text) == TUTTI_OK);
    CHECK(deterministic || says(text, "doubling"));
    CHECK((ordered_sum(comm, rank) == 1) == deterministic);
    CHECK(tutti_comm_free(comm) == TUTTI_OK);
  }
  return failures;
}

static int plan(int rank, int ranks) {
  char text[32] = "";
  int32_t values[2] = {rank, 1};
  tutti_connect_options options = meet_in("planned", rank, ranks);
  options.plan_file = in_folder(1, "plan");
  tutti_comm* const comm = connected_with(&options);
  CHECK(tutti_chosen_algorithm(comm, TUTTI_ALL_REDUCE, 8, text, sizeof text) == TUTTI_OK);
  CHECK(says(text, "mine"));
  CHECK(tutti_all_reduce(comm, values, values, 2, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
  CHECK(values[0] == 1 && values[1] == 2);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

static int port;

/// Two jobs of two ranks meet in the store of rank 4.
static int jobs(int rank, int ranks) {
  const char* const done[] = {"done 0", "done 1", "done 2", "done 3"};
  char server[40], client[40];
  snprintf(server, sizeof server, "tcp://127.0.0.1:%d", port);
  snprintf(client, sizeof client, "store://127.0.0.1:%d", port);
  tutti_connect_options options = meet_in("", rank / 2, 2);
  if (rank < ranks - 1) {
    int32_t value = rank % 2 ? 10 : 1;
    options.rendezvous = client;
    options.job = rank % 2 ? "tens" : "ones";
    tutti_comm* const comm = connected_with(&options);
    CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
    CHECK(value == (rank % 2 ? 20 : 2));
    CHECK(tutti_comm_free(comm) == TUTTI_OK);
    options.job = NULL;
  }
  tutti_store* store = NULL;
  options.rendezvous = server;
  options.rank = rank < ranks - 1;
  CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  if (rank < ranks - 1) CHECK(tutti_store_set(store, done[rank], NULL, 0) == TUTTI_OK);
  if (rank == ranks - 1) CHECK(tutti_store_wait(store, done, 4, 0) == TUTTI_OK);
  CHECK(tutti_store_free(store) == TUTTI_OK);
  return failures;
}

static int timeouts(int rank, int ranks) {
  int32_t value = 0;
  tutti_comm* comm = NULL;
  if (rank == 0) {
    tutti_connect_options alone = meet_in("nobody", 0, 2);
    alone.setup_timeout_ms = 100;
    CHECK_FAILS(TUTTI_RENDEZVOUS, "rank 1", tutti_connect(&alone, &comm));
  }
  tutti_connect_options options = meet_in("hasty", rank, ranks);
  if (rank == 0) options.timeout_ms = 500;
  comm = connected_with(&options);
  CHECK_FAILS(TUTTI_TIMEOUT, "timed out", tutti_recv(comm, &value, 1, TUTTI_I32, 1 - rank, 0, NULL, NULL));
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

static pid_t* stopped;  // memory of all ranks

/// Rank 1 stops itself, and is given up after a second instead of ten.
static int silence(int rank, int ranks) {
  struct timespec begin, end;
  tutti_connect_options options = meet_in("silence", rank, ranks);
  options.lost_after_ms = 1000;
  tutti_comm* const comm = connected_with(&options);
  if (rank == 1) *stopped = getpid();
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  if (rank == 1) raise(SIGSTOP);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  CHECK_FAILS(TUTTI_PEER_LOST, "has not been heard of for", tutti_barrier(comm, NULL));
  clock_gettime(CLOCK_MONOTONIC, &end);
  CHECK(end.tv_sec - begin.tv_sec < 9);
  CHECK(kill(*stopped, SIGKILL) == 0);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

static int refused(int rank, int ranks) {
  tutti_comm* comm = NULL;
  tutti_connect_options options = {.size = sizeof options, .rank = rank, .ranks = ranks, .lost_after_ms = 500};
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "give a second or more", tutti_connect(&options, &comm));
  options.lost_after_ms = 0;
  options.secret_file = "/nowhere/secret";
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "/nowhere/secret", tutti_connect(&options, &comm));
  CHECK(comm == NULL);
  return failures;
}

int main(void) {
  int wrong = 0;
  if (!mkdtemp(folder)) return 1;
  stopped = mmap(NULL, sizeof *stopped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (stopped == MAP_FAILED) return 1;
  write_file("table", "all_reduce * * * doubling\n");
  write_file("plan",
             "tutti-plans 1\n"
             "all_reduce mine ranks 2 root 0 pipeline 1 derive-waits\n"
             "rank 0\nsend 1 i1\nrecv_reduce 1 o0 i0\nsend 1 o0\nrecv 1 o1\n"
             "rank 1\nsend 0 i0\nrecv_reduce 0 o1 i1\nsend 0 o1\nrecv 0 o0\n");
  wrong += run_ranks(1, -1, refused);
  wrong += run_ranks(2, -1, transport);
  wrong += run_ranks(4, -1, tuning_and_order);
  wrong += run_ranks(2, -1, plan);
  port = held_port();
  wrong += run_ranks(5, -1, jobs);
  wrong += run_ranks(2, -1, timeouts);
  wrong += run_ranks(2, 1, silence);
  CHECK(unlink(in_folder(0, "table")) == 0 && unlink(in_folder(0, "plan")) == 0);
  for (int i = 0; i < 2; ++i) unlink(in_folder(0, i ? "nobody" : "silence"));  // of a rank that did not free its handle
  CHECK(rmdir(folder) == 0);
  return wrong != 0 || failures != 0;
}
