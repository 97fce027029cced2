// A program that is asked while it waits, and that wants its call to end.
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"

static char folder[] = "/tmp/tutti-c-XXXXXX";
static char url[64];
static atomic_int asked = 0;

/// Goes on as often as `context` says.
static int32_t give_up_after(void* context) { return atomic_fetch_add(&asked, 1) >= *(const int*)context; }

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum way { by_collective, by_work, by_limited_wait, by_wait_any, by_wait_all, by_message };
static enum way way;

/// Rank 1 waits for what rank 0 does not do, until its hook says so. Rank 0 learns who did that.
static int gives_up(int rank, int ranks) {
  static int times = 2;
  int32_t value = 1, done = 0;
  uint64_t index = 0;
  tutti_comm* const comm = connected(url, rank, ranks);
  tutti_work* work = NULL;
  const tutti_call_options started = {.size = sizeof started, .work = &work};
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  if (rank == 0) {
    CHECK_FAILS(TUTTI_ABORTED, "rank 1", tutti_recv(comm, &value, 1, TUTTI_I32, 1, 0, NULL, NULL));
    CHECK(strstr(tutti_last_error(), "interrupted"));
    CHECK(tutti_comm_free(comm) == TUTTI_OK);
    return failures;
  }
  CHECK(tutti_set_wait_hook(give_up_after, &times) == TUTTI_OK);
  if (way != by_collective && way != by_message)
    CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, &started) == TUTTI_OK);
  const double begin = seconds();
  if (way == by_collective)
    CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL));
  if (way == by_work) CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_work_wait(work));
  if (way == by_wait_any) CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_work_wait_any(&work, 1, &index));
  if (way == by_wait_all) CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_work_wait_all(&work, 1));
  if (way == by_limited_wait) CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_work_wait_for(work, 60000, &done));
  if (way == by_message)
    CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_recv(comm, &value, 1, TUTTI_I32, 0, 5, NULL, NULL));
  CHECK(seconds() - begin > 0.2 && seconds() - begin < 20);
  CHECK(atomic_load(&asked) == times + 1);
  CHECK(tutti_work_free(work) == TUTTI_OK && tutti_set_wait_hook(NULL, NULL) == TUTTI_OK);
  CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_barrier(comm, NULL));
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

/// A hook that lets it go on changes nothing, and a wait with a limit ends by its limit.
static int goes_on(int rank, int ranks) {
  static int times = 1 << 30;
  int32_t value = 1, done = 1;
  tutti_comm* const comm = connected(url, rank, ranks);
  tutti_work* work = NULL;
  const tutti_call_options started = {.size = sizeof started, .work = &work};
  CHECK(tutti_set_wait_hook(give_up_after, &times) == TUTTI_OK);
  if (rank == 0) {
    CHECK(tutti_recv(comm, &value, 1, TUTTI_I32, 1, 0, NULL, NULL) == TUTTI_OK);
    CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
  } else {
    CHECK(tutti_all_reduce(comm, &value, &value, 1, TUTTI_I32, TUTTI_SUM, &started) == TUTTI_OK);
    CHECK(tutti_work_wait_for(work, 500, &done) == TUTTI_OK && done == 0);
    CHECK(atomic_load(&asked) >= 2);  // ten times a second, of a process that may not have a core
    int32_t one = 1;
    CHECK(tutti_send(comm, &one, 1, TUTTI_I32, 0, 0, NULL) == TUTTI_OK);
    CHECK(tutti_work_wait(work) == TUTTI_OK && value == 2);
    CHECK(tutti_work_free(work) == TUTTI_OK);
  }
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures;
}

/// The other rank never comes.
static int gives_up_alone(int rank, int ranks) {
  static int times = 1;
  tutti_comm* comm = NULL;
  const tutti_connect_options options = {.size = sizeof options, .rank = rank, .ranks = 2, .rendezvous = url};
  (void)ranks;
  CHECK(tutti_set_wait_hook(give_up_after, &times) == TUTTI_OK);
  const double begin = seconds();
  CHECK_FAILS(TUTTI_ABORTED, "interrupted", tutti_connect(&options, &comm));
  CHECK(!comm && seconds() - begin < 20);
  return failures;
}

static int gives_up_without_server(int rank, int ranks) {
  (void)rank;
  return gives_up_alone(1, ranks);
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  int wrong = 0;
  for (way = by_collective; way <= by_message; ++way) {
    snprintf(url, sizeof url, "file://%s/%d", folder, (int)way);
    wrong += run_ranks(2, -1, gives_up);
  }
  snprintf(url, sizeof url, "file://%s/on", folder);
  wrong += run_ranks(2, -1, goes_on);
  snprintf(url, sizeof url, "file://%s/alone", folder);
  wrong += run_ranks(1, -1, gives_up_alone);
  char left[64];
  snprintf(left, sizeof left, "%s/alone", folder);
  unlink(left);
  snprintf(url, sizeof url, "tcp://127.0.0.1:1");  // nobody listens there
  wrong += run_ranks(1, -1, gives_up_without_server);
  CHECK(rmdir(folder) == 0);
  return wrong != 0 || failures != 0;
}
