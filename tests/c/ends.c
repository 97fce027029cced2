// A rank that is killed, a call that another thread aborts, and a call for which several threads wait.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "check.h"

enum { culprit = 2 };

static char folder[] = "/tmp/tutti-c-XXXXXX";
static char url[64];

/// `rank` goes on when all others have come here, too, and have completed their earlier calls.
static void let_others_pass(tutti_comm* comm, int rank, int own, int ranks) {
  int32_t nothing = 0;
  if (own != rank) CHECK(tutti_send(comm, &nothing, 1, TUTTI_I32, rank, 0, NULL) == TUTTI_OK);
  for (int other = 0; own == rank && other < ranks; ++other)
    if (other != rank) CHECK(tutti_recv(comm, &nothing, 1, TUTTI_I32, other, 0, NULL, NULL) == TUTTI_OK);
}

/// The survivors get the culprit long before the deadline of their call, and go on without it.
static int one_is_killed(int rank, int ranks) {
  tutti_comm* const comm = connected(url, rank, ranks);
  tutti_comm* rest = NULL;
  tutti_error_details details = {.size = sizeof details};
  int32_t value = 1, size = 0;
  struct timespec begin, end;
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  let_others_pass(comm, culprit, rank, ranks);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  if (rank == culprit) raise(SIGKILL);
  CHECK_FAILS(TUTTI_PEER_LOST, "rank 2", tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL));
  clock_gettime(CLOCK_MONOTONIC, &end);
  CHECK(end.tv_sec - begin.tv_sec < 30);
  CHECK(tutti_last_error_details(&details) == TUTTI_OK);
  CHECK(details.code == TUTTI_PEER_LOST && details.rank == culprit && details.operation > 0);
  CHECK(details.steps > 0 && details.in_rounds == (details.steps == 1));  // the board's only one
  CHECK(strstr(details.process, "pid ") && strcmp(details.collective, "all_reduce") == 0 && details.count == 1);

  CHECK(tutti_comm_shrink(comm, 30000, &rest) == TUTTI_OK);
  CHECK(tutti_comm_size(rest, &size) == TUTTI_OK && size == ranks - 1);
  value = 1;
  CHECK(tutti_all_reduce(rest, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK && value == ranks - 1);
  CHECK(tutti_comm_free(rest) == TUTTI_OK && tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

static void* aborting(void* comm) {
  CHECK(tutti_comm_abort(comm, "the user pressed a key") == TUTTI_OK);
  return NULL;
}

/// Rank 0 never calls, and its other thread aborts; the wait of the others ends, and their own errors say why.
static int one_aborts(int rank, int ranks) {
  tutti_comm* const comm = connected(url, rank, ranks);
  pthread_t thread;
  int32_t value = 1, done = 0;
  tutti_work* work = NULL;
  const tutti_call_options options = {.size = sizeof options, .work = &work};
  CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, rank == 0 ? NULL : &options) == TUTTI_OK);
  if (rank == 0) {
    let_others_pass(comm, 0, rank, ranks);
    CHECK(pthread_create(&thread, NULL, aborting, comm) == 0 && pthread_join(thread, NULL) == 0);
  } else {
    CHECK(tutti_work_wait(work) == TUTTI_OK);
    CHECK(tutti_work_free(work) == TUTTI_OK);
    CHECK(tutti_barrier(comm, &options) == TUTTI_OK);
    let_others_pass(comm, 0, rank, ranks);
    CHECK_FAILS(TUTTI_ABORTED, "the user pressed a key", tutti_work_wait(work));
    CHECK_FAILS(TUTTI_ABORTED, "the user pressed a key", tutti_work_test(work, &done));
    CHECK(done == 1 && tutti_work_free(work) == TUTTI_OK);
  }
  CHECK_FAILS(TUTTI_ABORTED, "the user pressed a key", tutti_barrier(comm, NULL));
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

/// Waits until another thread has posted it.
static void await_count(sem_t* semaphore) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 30;
  CHECK(sem_timedwait(semaphore, &limit) == 0);
}

static int heard[2];  // a pipe

/// Combines nothing until the other rank has heard of the end.
static void combine_late(void* accumulated, const void* operand, uint64_t count, void* begun) {
  char byte = 0;
  (void)accumulated, (void)operand, (void)count;
  CHECK(sem_post(begun) == 0);
  CHECK(read(heard[0], &byte, 1) == 1);
}

struct late_call {
  tutti_comm* comm;
  sem_t begun;
};

static void* calling_late(void* context) {
  struct late_call* const call = context;
  int32_t value = 1;
  tutti_op* op = NULL;
  CHECK(tutti_op_create(TUTTI_I32, combine_late, &call->begun, &op) == TUTTI_OK);
  const tutti_call_options options = {.size = sizeof options, .op = op};
  const tutti_result result = tutti_reduce(call->comm, &value, &value, 1, TUTTI_I32, TUTTI_USER, 0, &options);
  CHECK(result == TUTTI_OK || result == TUTTI_ABORTED);  // nothing but the op was left to do
  CHECK_FAILS(TUTTI_ABORTED, "the user pressed a key", tutti_barrier(call->comm, NULL));
  CHECK(tutti_op_free(op) == TUTTI_OK);
  return NULL;
}

/// Rank 0 aborts while its other thread, which drives, is in an op that does not return before rank 1 has heard of it.
static int one_aborts_in_op(int rank, int ranks) {
  tutti_comm* const comm = connected(url, rank, ranks);
  int32_t value = 1;
  tutti_work* work = NULL;
  tutti_op* op = NULL;
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  if (rank == 0) {
    struct late_call call = {.comm = comm};
    pthread_t thread;
    CHECK(sem_init(&call.begun, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, calling_late, &call) == 0);
    await_count(&call.begun);
    CHECK(tutti_comm_abort(comm, "the user pressed a key") == TUTTI_OK);
    CHECK(pthread_join(thread, NULL) == 0 && sem_destroy(&call.begun) == 0);
  } else {
    CHECK(tutti_op_create(TUTTI_I32, combine_late, NULL, &op) == TUTTI_OK);
    const tutti_call_options options = {.size = sizeof options, .op = op, .work = &work};
    CHECK(tutti_reduce(comm, &value, NULL, 1, TUTTI_I32, TUTTI_USER, 0, &options) == TUTTI_OK);
    CHECK_FAILS(TUTTI_ABORTED, "the user pressed a key", tutti_recv(comm, &value, 1, TUTTI_I32, 0, 0, NULL, NULL));
    CHECK(write(heard[1], "", 1) == 1);
    CHECK(tutti_work_free(work) == TUTTI_OK && tutti_op_free(op) == TUTTI_OK);
  }
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

static void* waiting(void* work) {
  CHECK(tutti_work_wait(work) == TUTTI_OK);
  return NULL;
}

static void count(void* semaphore) { CHECK(sem_post(semaphore) == 0); }

/// Rank 1 receives what rank 0 sends when everybody waits for it.
static int many_wait(int rank, int ranks) {
  tutti_comm* const comm = connected(url, rank, ranks);
  pthread_t threads[3];
  sem_t counted;
  int32_t value = 0, done = 1, counts = -1;
  tutti_work* work = NULL;
  const tutti_call_options start = {.size = sizeof start, .work = &work};
  CHECK(sem_init(&counted, 0, 0) == 0);
  if (rank == 1) {
    CHECK(tutti_recv(comm, &value, 1, TUTTI_I32, 0, 9, &start, NULL) == TUTTI_OK);
    CHECK(tutti_work_then(work, count, &counted) == TUTTI_OK);
    for (int k = 0; k < 3; ++k) CHECK(pthread_create(&threads[k], NULL, waiting, work) == 0);
    CHECK(tutti_work_test(work, &done) == TUTTI_OK && done == 0 && sem_trywait(&counted) != 0);
  }
  let_others_pass(comm, 0, rank, ranks);
  if (rank == 0) CHECK(tutti_send(comm, &rank, 1, TUTTI_I32, 1, 9, NULL) == TUTTI_OK);
  if (rank == 1) {
    for (int k = 0; k < 3; ++k) CHECK(pthread_join(threads[k], NULL) == 0);
    await_count(&counted);
    CHECK(tutti_work_then(work, count, &counted) == TUTTI_OK);  // at once
    CHECK(sem_getvalue(&counted, &counts) == 0 && counts == 1);
    CHECK(tutti_work_free(work) == TUTTI_OK);
    await_count(&counted);

    CHECK(tutti_recv(comm, &value, 1, TUTTI_I32, 0, 9, &start, NULL) == TUTTI_OK);
    CHECK(tutti_work_then(work, count, &counted) == TUTTI_OK);
    CHECK(tutti_work_free(work) == TUTTI_OK);  // the callback stays
  }
  let_others_pass(comm, 0, rank, ranks);
  if (rank == 0) CHECK(tutti_send(comm, &rank, 1, TUTTI_I32, 1, 9, NULL) == TUTTI_OK);
  if (rank == 1) await_count(&counted);
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  CHECK(tutti_comm_free(comm) == TUTTI_OK && sem_destroy(&counted) == 0);
  return failures;
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  snprintf(url, sizeof url, "file://%s/killed", folder);
  int wrong = run_ranks(3, culprit, one_is_killed);
  snprintf(url, sizeof url, "file://%s/aborted", folder);
  wrong += run_ranks(3, -1, one_aborts);
  snprintf(url, sizeof url, "file://%s/op", folder);
  if (pipe(heard) != 0) return 1;
  wrong += run_ranks(2, -1, one_aborts_in_op);
  snprintf(url, sizeof url, "file://%s/many", folder);
  wrong += run_ranks(2, -1, many_wait);
  char killed[64];
  snprintf(killed, sizeof killed, "%s/killed", folder);
  unlink(killed);  // its last user was to remove it
  CHECK(rmdir(folder) == 0);
  return wrong != 0 || failures != 0;
}
