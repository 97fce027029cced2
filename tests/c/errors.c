// Wrong calls: an error in words, never a crash, and the communicator can be used further.
#include "check.h"

enum { invalid = TUTTI_INVALID_ARGUMENT };

static tutti_comm* comm = NULL;
static int32_t in[4] = {1, 2, 3, 4}, out[4];

static void null_handles(void) {
  tutti_comm* made = NULL;
  tutti_work* work = NULL;
  tutti_op* op = NULL;
  int32_t number = 0;
  uint64_t index = 0;
  tutti_status status;
  CHECK_FAILS(invalid, "tutti_all_reduce: comm is NULL",
              tutti_all_reduce(NULL, in, out, 4, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "comm is NULL", tutti_barrier(NULL, NULL));
  CHECK_FAILS(invalid, "comm is NULL", tutti_comm_rank(NULL, &number));
  CHECK_FAILS(invalid, "rank is NULL", tutti_comm_rank(comm, NULL));
  CHECK_FAILS(invalid, "comm is NULL", tutti_connect(NULL, NULL));
  CHECK_FAILS(invalid, "comm is NULL", tutti_comm_split(NULL, 0, 0, &made));
  CHECK_FAILS(invalid, "made is NULL", tutti_comm_split(comm, 0, 0, NULL));
  CHECK_FAILS(invalid, "ranks is NULL", tutti_comm_subgroup(comm, NULL, 1, &made));
  CHECK_FAILS(invalid, "comm is NULL", tutti_comm_abort(NULL, "reason"));
  CHECK_FAILS(invalid, "comm is NULL", tutti_comm_shrink(NULL, 0, &made));
  CHECK_FAILS(invalid, "work is NULL", tutti_work_wait(NULL));
  CHECK_FAILS(invalid, "work is NULL", tutti_work_test(NULL, &number));
  CHECK_FAILS(invalid, "work is NULL", tutti_work_wait_for(NULL, 0, &number));
  CHECK_FAILS(invalid, "index is NULL", tutti_work_wait_any(&work, 1, NULL));
  CHECK_FAILS(invalid, "works is NULL", tutti_work_wait_any(NULL, 1, &index));
  CHECK_FAILS(invalid, "a work is NULL", tutti_work_wait_any(&work, 1, &index));
  CHECK_FAILS(invalid, "there is nothing to wait for", tutti_work_wait_any(NULL, 0, &index));
  CHECK_FAILS(invalid, "a work is NULL", tutti_work_wait_all(&work, 1));
  CHECK(tutti_work_wait_all(NULL, 0) == TUTTI_OK);
  CHECK_FAILS(invalid, "work is NULL", tutti_work_wait_on(NULL, NULL));
  CHECK_FAILS(invalid, "work is NULL", tutti_work_status(NULL, &status));
  CHECK_FAILS(invalid, "work is NULL", tutti_work_then(NULL, NULL, NULL));
  CHECK_FAILS(invalid, "persistent is NULL", tutti_persistent_start(NULL));
  CHECK_FAILS(invalid, "persistent is NULL", tutti_persistent_run(NULL));
  CHECK_FAILS(invalid, "persistent is NULL", tutti_persistent_wait(NULL));
  CHECK_FAILS(invalid, "function is NULL", tutti_op_create(TUTTI_F32, NULL, NULL, &op));
  CHECK_FAILS(invalid, "op is NULL", tutti_op_create_premul_sum(1, NULL));
  CHECK_FAILS(invalid, "comm is NULL", tutti_send(NULL, in, 1, TUTTI_I32, 0, 0, NULL));
  CHECK_FAILS(invalid, "found is NULL", tutti_iprobe(comm, 0, 0, NULL, NULL));
  CHECK_FAILS(invalid, "id is NULL", tutti_unique_id_create(NULL));
  CHECK_FAILS(invalid, "details is NULL", tutti_last_error_details(NULL));
  CHECK(made == NULL && work == NULL && op == NULL);
  CHECK(tutti_comm_free(NULL) == TUTTI_OK && tutti_work_free(NULL) == TUTTI_OK);
  CHECK(tutti_persistent_free(NULL) == TUTTI_OK && tutti_op_free(NULL) == TUTTI_OK);
}

static void null_buffers(void) {
  CHECK_FAILS(invalid, "in is NULL", tutti_all_reduce(comm, NULL, out, 4, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "out is NULL", tutti_all_reduce(comm, in, NULL, 4, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "out is NULL", tutti_reduce(comm, in, NULL, 4, TUTTI_I32, TUTTI_SUM, 0, NULL));
  CHECK_FAILS(invalid, "counts is NULL", tutti_all_gather_v(comm, in, out, NULL, NULL, TUTTI_I32, NULL));
  CHECK_FAILS(invalid, "data is NULL", tutti_send(comm, NULL, 4, TUTTI_I32, 0, 0, NULL));
  CHECK(tutti_all_reduce(comm, NULL, NULL, 0, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
}

static void wrong_memory(void) {
  const char* why_not = NULL;
  tutti_call_options options = {.size = sizeof options};
  options.stream = &options;
  CHECK_FAILS(invalid, "on_device is 0", tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_SUM, &options));
  options.stream = NULL;
  options.on_device = 1;
  if (tutti_gpu_available(&why_not)) {
    CHECK(why_not[0] == 0);
    CHECK_FAILS(invalid, "memory of the host", tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_SUM, &options));
    CHECK_FAILS(invalid, "in C on_device = 0", tutti_send(comm, in, 4, TUTTI_I32, 0, 0, &options));
  } else {
    CHECK(why_not[0] != 0);
    CHECK_FAILS(TUTTI_UNSUPPORTED, why_not, tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_SUM, &options));
    CHECK_FAILS(TUTTI_UNSUPPORTED, why_not, tutti_send(comm, in, 4, TUTTI_I32, 0, 0, &options));
  }
}

static void wrong_numbers(void) {
  tutti_comm* made = NULL;
  char text[2] = "";
  const int32_t twice[] = {0, 0};
  const uint64_t huge[] = {UINT64_MAX};
  const tutti_call_options impatient = {.size = sizeof impatient, .timeout_ms = -1};
  CHECK_FAILS(invalid, "99 is not a tutti_type", tutti_all_reduce(comm, in, out, 4, 99, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "-1 is not a tutti_type", tutti_send(comm, in, 4, -1, 0, 0, NULL));
  CHECK_FAILS(invalid, "10 is not a tutti_op_kind", tutti_all_reduce(comm, in, out, 4, TUTTI_I32, 10, NULL));
  CHECK_FAILS(invalid, "-1 is not a tutti_op_kind", tutti_scan(comm, in, out, 4, TUTTI_I32, -1, NULL));
  CHECK_FAILS(invalid, "user needs an op", tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_USER, NULL));
  CHECK_FAILS(invalid, "11 is not a tutti_collective", tutti_chosen_algorithm(comm, 11, 1, text, sizeof text));
  CHECK_FAILS(invalid, "the text needs", tutti_chosen_algorithm(comm, TUTTI_BARRIER, 1, text, sizeof text));
  CHECK_FAILS(invalid, "root -1 is not a rank", tutti_broadcast(comm, in, 4, TUTTI_I32, -1, NULL));
  CHECK_FAILS(invalid, "root 1 is not a rank", tutti_gather(comm, in, out, 4, TUTTI_I32, 1, NULL));
  CHECK_FAILS(invalid, "more than any memory", tutti_all_gather(comm, in, out, UINT64_MAX, TUTTI_I32, NULL));
  CHECK_FAILS(invalid, "a count of 4611686018427387904 elements is more than any memory",
              tutti_all_reduce(comm, in, out, 1ULL << 62, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "more than any memory",
              tutti_reduce_scatter(comm, in, out, 1ULL << 62, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "more than any memory", tutti_send(comm, in, 1ULL << 62, TUTTI_I32, 0, 0, NULL));
  CHECK_FAILS(invalid, "more than any memory", tutti_recv(comm, out, UINT64_MAX, TUTTI_I32, 0, 0, NULL, NULL));
  CHECK_FAILS(invalid, "more than any memory", tutti_all_gather_v(comm, in, out, huge, NULL, TUTTI_I32, NULL));
  CHECK_FAILS(invalid, "7 is not a rank", tutti_recv(comm, out, 4, TUTTI_I32, 7, 0, NULL, NULL));
  CHECK_FAILS(invalid, "tag -7", tutti_send(comm, in, 4, TUTTI_I32, 0, -7, NULL));
  CHECK_FAILS(invalid, "negative", tutti_send(comm, in, 4, TUTTI_I32, 0, 0, &impatient));
  CHECK_FAILS(invalid, "colour -2", tutti_comm_split(comm, -2, 0, &made));
  CHECK_FAILS(invalid, "more than the 1", tutti_comm_subgroup(comm, twice, 2, &made));
  CHECK_FAILS(invalid, "overlap", tutti_all_reduce(comm, in, in + 1, 3, TUTTI_I32, TUTTI_SUM, NULL));
  CHECK_FAILS(invalid, "sendrecv on rank 0 of 1: in and out overlap",
              tutti_sendrecv(comm, in, 4, TUTTI_I32, 0, in, 4, TUTTI_I32, 0, 0, NULL, NULL));
}

static void wrong_structs(void) {
  tutti_work* work = NULL;
  tutti_persistent* persistent = NULL;
  tutti_call_options options = {.size = 4};
  tutti_error_details details = {.size = 8};
  tutti_connect_options places = {.size = 1};
  tutti_comm* made = NULL;
  tutti_status status;
  struct {
    tutti_call_options known;
    uint64_t newer;
  } next = {.known = {.size = sizeof next}};
  CHECK_FAILS(invalid, "sizeof(tutti_call_options)", tutti_barrier(comm, &options));
  CHECK_FAILS(invalid, "sizeof(tutti_error_details)", tutti_last_error_details(&details));
  CHECK_FAILS(invalid, "sizeof(tutti_connect_options)", tutti_connect(&places, &made));
  places = (tutti_connect_options){.size = sizeof places, .rank = 2, .ranks = 2};
  CHECK_FAILS(invalid, "rank 2 is not one of 2", tutti_connect(&places, &made));
  places = (tutti_connect_options){.size = sizeof places, .ranks = 2, .rendezvous = "nowhere"};
  CHECK_FAILS(invalid, "nowhere", tutti_connect(&places, &made));
  options = (tutti_call_options){.size = sizeof options, .work = &work, .persistent = &persistent};
  CHECK_FAILS(invalid, "give one of them", tutti_barrier(comm, &options));
  CHECK_FAILS(invalid, "cannot be prepared", tutti_send(comm, in, 4, TUTTI_I32, 0, 0, &options));
  options.persistent = NULL;
  CHECK_FAILS(invalid, "start a receive and a send",
              tutti_sendrecv(comm, in, 4, TUTTI_I32, 0, out, 4, TUTTI_I32, 0, 0, &options, NULL));
  CHECK_FAILS(invalid, "tutti_work_status()", tutti_recv(comm, out, 4, TUTTI_I32, 0, 0, &options, &status));
  CHECK(work == NULL);
  options = (tutti_call_options){.size = sizeof options, .algorithm = "rign"};
  CHECK_FAILS(invalid, "messages have none", tutti_recv(comm, out, 4, TUTTI_I32, 0, 0, &options, NULL));
  CHECK_FAILS(invalid, "rign", tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_SUM, &options));
  CHECK(tutti_barrier(comm, &next.known) == TUTTI_OK);
  next.newer = 1;
  CHECK_FAILS(invalid, "members that this version", tutti_barrier(comm, &next.known));
}

/// What a program frees without looking at the result.
static void handles_of_failed_calls(void) {
  tutti_comm* const garbage = comm;
  tutti_comm* made = garbage;
  tutti_work* work = (tutti_work*)garbage;
  tutti_persistent* persistent = (tutti_persistent*)garbage;
  struct {
    tutti_call_options known;
    uint64_t newer;
  } options = {.known = {.size = sizeof options.known, .work = &work}};
  CHECK_FAILS(invalid, "negative", tutti_comm_shrink(comm, -1, &made));
  CHECK(made == NULL);
  CHECK_FAILS(invalid, "comm is NULL", tutti_barrier(NULL, &options.known));
  CHECK(work == NULL);
  options.known = (tutti_call_options){.size = sizeof options.known, .persistent = &persistent, .stream = in};
  CHECK_FAILS(invalid, "on_device is 0", tutti_barrier(comm, &options.known));
  CHECK(persistent == NULL);
  persistent = (tutti_persistent*)garbage;
  options.known = (tutti_call_options){.size = sizeof options.known, .persistent = &persistent};
  CHECK_FAILS(invalid, "cannot be prepared", tutti_send(comm, in, 4, TUTTI_I32, 0, 0, &options.known));
  CHECK(persistent == NULL);
  work = (tutti_work*)garbage;
  options.newer = 1;
  options.known = (tutti_call_options){.size = sizeof options, .work = &work};
  CHECK_FAILS(invalid, "members that this version", tutti_recv(comm, out, 4, TUTTI_I32, 0, 0, &options.known, NULL));
  CHECK(work == NULL);
}

static void details_of_the_last(void) {
  tutti_error_details details = {.size = sizeof details};
  CHECK_FAILS(invalid, "root 5", tutti_broadcast(comm, in, 4, TUTTI_I32, 5, NULL));
  CHECK(tutti_last_error_details(&details) == TUTTI_OK);
  CHECK(details.code == invalid && details.rank == -1 && strstr(details.message, "root 5") && details.host[0] == 0);
}

int main(void) {
  tutti_error_details details = {.size = sizeof details};
  alarm(patience());
  CHECK(strcmp(tutti_last_error(), "") == 0);
  CHECK(tutti_last_error_details(&details) == TUTTI_OK && details.code == TUTTI_OK && details.rank == -1);
  CHECK(tutti_connect(NULL, &comm) == TUTTI_OK);
  null_handles();
  null_buffers();
  wrong_memory();
  wrong_numbers();
  wrong_structs();
  handles_of_failed_calls();
  details_of_the_last();
  CHECK(tutti_all_reduce(comm, in, out, 4, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK && out[3] == 4);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures != 0;
}
