// Every function of <tutti/c.h>, called by 3 ranks (or others, up to 8), with the results checked. Collectives are rows
// of a table, each of which is waited for, started, prepared, and done in place.
#include "check.h"

enum { part = 4, wide = 8, most = 64, untouched = -1, root = 1 };

static tutti_comm* comm = NULL;
static int32_t me = 0;
static int32_t n = 0;

/// Element i of the input of rank k.
static int32_t x(int k, int i) { return 100 * k + i; }

static int32_t sum_of_all(int i) {
  int32_t sum = 0;
  for (int k = 0; k < n; ++k) sum += x(k, i);
  return sum;
}

static int32_t sum_before(int end, int i) {
  int32_t sum = 0;
  for (int k = 0; k < end; ++k) sum += x(k, i);
  return sum;
}

// ---- The table: a call, and what stands at place i of its output -------------------------------------------------

static uint64_t counts[wide], displacements[wide], shared_counts[wide], wide_displacements[wide];

typedef const tutti_call_options* Options;

static tutti_result all_reduce(const int32_t* in, int32_t* out, Options options) {
  return tutti_all_reduce(comm, in, out, part, TUTTI_I32, TUTTI_SUM, options);
}
static int32_t all_reduced(int i) { return i < part ? sum_of_all(i) : untouched; }

static tutti_result reduce(const int32_t* in, int32_t* out, Options options) {
  return tutti_reduce(comm, in, me == root ? out : NULL, part, TUTTI_I32, TUTTI_SUM, root, options);
}
static int32_t reduced(int i) { return me == root ? all_reduced(i) : untouched; }

static tutti_result broadcast(const int32_t* in, int32_t* out, Options options) {
  if (in != out) memcpy(out, in, part * sizeof *out);
  return tutti_broadcast(comm, out, part, TUTTI_I32, root, options);
}
static int32_t broadcasted(int i) { return i < part ? x(root, i) : untouched; }

static tutti_result all_gather(const int32_t* in, int32_t* out, Options options) {
  return tutti_all_gather(comm, in, out, part, TUTTI_I32, options);
}
static int32_t all_gathered(int i) { return i < part * n ? x(i / part, i % part) : untouched; }

static tutti_result gather(const int32_t* in, int32_t* out, Options options) {
  return tutti_gather(comm, in, me == root ? out : NULL, part, TUTTI_I32, root, options);
}
static int32_t gathered(int i) { return me == root ? all_gathered(i) : untouched; }

static tutti_result reduce_scatter(const int32_t* in, int32_t* out, Options options) {
  return tutti_reduce_scatter(comm, in, out, part, TUTTI_I32, TUTTI_SUM, options);
}
static int32_t reduce_scattered(int i) { return i < part ? sum_of_all(part * me + i) : untouched; }

static tutti_result scatter(const int32_t* in, int32_t* out, Options options) {
  return tutti_scatter(comm, me == root ? in : NULL, out, part, TUTTI_I32, root, options);
}
static int32_t scattered(int i) { return i < part ? x(root, part * me + i) : untouched; }

static tutti_result all_to_all(const int32_t* in, int32_t* out, Options options) {
  return tutti_all_to_all(comm, in, out, part, TUTTI_I32, options);
}
static int32_t exchanged(int i) { return i < part * n ? x(i / part, part * me + i % part) : untouched; }

static tutti_result scan(const int32_t* in, int32_t* out, Options options) {
  return tutti_scan(comm, in, out, part, TUTTI_I32, TUTTI_SUM, options);
}
static int32_t scanned(int i) { return i < part ? sum_before(me + 1, i) : untouched; }

static tutti_result exclusive_scan(const int32_t* in, int32_t* out, Options options) {
  return tutti_exclusive_scan(comm, in, me == 0 && in != out ? NULL : out, part, TUTTI_I32, TUTTI_SUM, options);
}
static int32_t exclusively_scanned(int i) { return i < part && me > 0 ? sum_before(me, i) : untouched; }

static tutti_result barrier(const int32_t* in, int32_t* out, Options options) {
  (void)in, (void)out;
  return tutti_barrier(comm, options);
}
static int32_t nothing(int i) {
  (void)i;
  return untouched;
}

// Rank k has k + 1 elements, at 4 k, or one part after the other.
static tutti_result all_gather_v(const int32_t* in, int32_t* out, Options options) {
  return tutti_all_gather_v(comm, in, out, counts, displacements, TUTTI_I32, options);
}
static int32_t all_gathered_v(int i) {
  return i / part < n && i % part <= i / part ? x(i / part, i % part) : untouched;
}

static tutti_result gather_v(const int32_t* in, int32_t* out, Options options) {
  return tutti_gather_v(comm, in, me == root ? out : NULL, counts, NULL, TUTTI_I32, root, options);
}
static int32_t gathered_v(int i) {
  for (int k = 0; k < n && me == root; i -= ++k)
    if (i <= k) return x(k, i);
  return untouched;
}

static tutti_result reduce_scatter_v(const int32_t* in, int32_t* out, Options options) {
  return tutti_reduce_scatter_v(comm, in, out, counts, displacements, TUTTI_I32, TUTTI_SUM, options);
}
static int32_t reduce_scattered_v(int i) { return i <= me ? sum_of_all(part * me + i) : untouched; }

static tutti_result scatter_v(const int32_t* in, int32_t* out, Options options) {
  return tutti_scatter_v(comm, me == root ? in : NULL, out, counts, displacements, TUTTI_I32, root, options);
}
static int32_t scattered_v(int i) { return i <= me ? x(root, part * me + i) : untouched; }

// Rank k sends k + r + 1 elements to rank r, from 8 r on.
static tutti_result all_to_all_v(const int32_t* in, int32_t* out, Options options) {
  return tutti_all_to_all_v(comm, in, shared_counts, wide_displacements, out, shared_counts, wide_displacements,
                            TUTTI_I32, options);
}
static int32_t exchanged_v(int i) {
  const int k = i / wide;
  return k < n && i % wide <= k + me ? x(k, wide * me + i % wide) : untouched;
}

/// Where the other buffer lies for a call in place.
enum in_place { never, same, in_is_part, out_is_part };

static const struct row {
  const char* name;
  tutti_result (*call)(const int32_t* in, int32_t* out, Options options);
  int32_t (*expected)(int i);
  enum in_place in_place;
} rows[] = {
    {"all_reduce", all_reduce, all_reduced, same},
    {"reduce", reduce, reduced, same},
    {"broadcast", broadcast, broadcasted, same},
    {"all_gather", all_gather, all_gathered, in_is_part},
    {"gather", gather, gathered, never},
    {"reduce_scatter", reduce_scatter, reduce_scattered, out_is_part},
    {"scatter", scatter, scattered, never},
    {"all_to_all", all_to_all, exchanged, same},
    {"scan", scan, scanned, same},
    {"exclusive_scan", exclusive_scan, exclusively_scanned, same},
    {"barrier", barrier, nothing, never},
    {"all_gather_v", all_gather_v, all_gathered_v, never},
    {"gather_v", gather_v, gathered_v, never},
    {"reduce_scatter_v", reduce_scatter_v, reduce_scattered_v, never},
    {"scatter_v", scatter_v, scattered_v, never},
    {"all_to_all_v", all_to_all_v, exchanged_v, never},
};

static int32_t in[most], out[most];

static void fill(void) {
  for (int i = 0; i < most; ++i) in[i] = x(me, i), out[i] = untouched;
}

/// Elements that nobody should have written are looked at only where `all`: in place they are input.
static void compare(const struct row* row, const char* how, const int32_t* found, int size, int all) {
  for (int i = 0; i < size; ++i) {
    const int32_t wanted = row->expected(i);
    if (found[i] == wanted || (wanted == untouched && !all)) continue;
    fprintf(stderr, "rank %d: %s, %s: place %d is %d and not %d\n", me, row->name, how, i, found[i], wanted);
    ++failures;
    return;
  }
}

static void wait_for_result(const struct row* row) {
  fill();
  CHECK(row->call(in, out, NULL) == TUTTI_OK);
  compare(row, "waited for", out, most, 1);
}

static void start(const struct row* row) {
  tutti_work* work = NULL;
  int32_t done = 0;
  const tutti_call_options options = {.size = sizeof options, .timeout_ms = 60000, .work = &work};
  fill();
  CHECK(row->call(in, out, &options) == TUTTI_OK);
  CHECK(work != NULL);
  CHECK(tutti_work_test(work, &done) == TUTTI_OK);
  CHECK(tutti_work_wait(work) == TUTTI_OK);
  CHECK(tutti_work_test(work, &done) == TUTTI_OK && done == 1);
  CHECK(tutti_work_free(work) == TUTTI_OK);
  compare(row, "started", out, most, 1);
}

static void prepare(const struct row* row) {
  tutti_persistent* call = NULL;
  int32_t done = 0;
  const tutti_call_options options = {.size = sizeof options, .persistent = &call};
  fill();
  CHECK(row->call(in, out, &options) == TUTTI_OK);
  CHECK(call != NULL);
  CHECK(tutti_persistent_start(call) == TUTTI_OK);
  CHECK(tutti_persistent_wait(call) == TUTTI_OK);
  compare(row, "prepared", out, most, 1);
  fill();
  if (row->call == broadcast) memcpy(out, in, part * sizeof *out);
  CHECK(tutti_persistent_run(call) == TUTTI_OK);
  compare(row, "run again", out, most, 1);
  fill();
  if (row->call == broadcast) memcpy(out, in, part * sizeof *out);
  CHECK(tutti_persistent_start(call) == TUTTI_OK);
  while (!done && failures == 0) CHECK(tutti_persistent_wait_for(call, 1000, &done) == TUTTI_OK);
  compare(row, "started again", out, most, 1);
  CHECK(tutti_persistent_free(call) == TUTTI_OK);
}

static void do_in_place(const struct row* row) {
  if (row->in_place == never) return;
  fill();
  int32_t* const own = in + part * me;
  if (row->in_place == same) CHECK(row->call(in, in, NULL) == TUTTI_OK);
  if (row->in_place == out_is_part) CHECK(row->call(in, own, NULL) == TUTTI_OK);
  if (row->in_place == in_is_part) {
    for (int i = 0; i < part; ++i) own[i] = x(me, i);
    CHECK(row->call(own, in, NULL) == TUTTI_OK);
  }
  compare(row, "in place", row->in_place == out_is_part ? own : in, row->in_place == out_is_part ? part : part * n, 0);
}

// ---- The other functions -----------------------------------------------------------------------------------------

static void messages(void) {
  const int32_t right = (me + 1) % n;
  const int32_t left = (me + n - 1) % n;
  tutti_status status = {0, 0, 0};
  tutti_work* work[2] = {NULL, NULL};
  const tutti_call_options starts[2] = {{.size = sizeof starts[0], .work = &work[0]},
                                        {.size = sizeof starts[1], .timeout_ms = 60000, .work = &work[1]}};
  int32_t found = 0;
  int32_t done = 0;
  uint64_t index = 7;
  fill();
  CHECK(tutti_sendrecv(comm, in, 3, TUTTI_I32, right, out, part, TUTTI_I32, left, 5, NULL, &status) == TUTTI_OK);
  CHECK(status.source == left && status.tag == 5 && status.count == 3 && out[2] == x(left, 2) && out[3] == untouched);

  fill();
  CHECK(tutti_recv(comm, out, part, TUTTI_I32, left, 6, &starts[0], NULL) == TUTTI_OK);
  CHECK(tutti_send(comm, in, 2, TUTTI_I32, right, 6, &starts[1]) == TUTTI_OK);
  while (!done && failures == 0) CHECK(tutti_work_wait_for(work[0], 1000, &done) == TUTTI_OK);
  CHECK(tutti_work_wait_all(work, 2) == TUTTI_OK);
  CHECK(tutti_work_wait_any(work, 2, &index) == TUTTI_OK && index == 0);
  CHECK(tutti_work_status(work[0], &status) == TUTTI_OK && status.source == left && status.count == 2);
  CHECK(out[1] == x(left, 1) && tutti_work_free(work[0]) == TUTTI_OK && tutti_work_free(work[1]) == TUTTI_OK);

  // Small messages do not wait for their receivers.
  CHECK(tutti_send(comm, in, 4, TUTTI_I32, right, 7, NULL) == TUTTI_OK);
  CHECK(tutti_probe(comm, TUTTI_ANY_SOURCE, 7, 0, &status) == TUTTI_OK && status.source == left && status.count == 4);
  CHECK(tutti_iprobe(comm, left, TUTTI_ANY_TAG, &found, &status) == TUTTI_OK && found == 1 && status.tag == 7);
  CHECK(tutti_recv(comm, out, most, TUTTI_I32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, NULL, &status) == TUTTI_OK);
  CHECK(status.source == left && out[3] == x(left, 3));
  CHECK(tutti_iprobe(comm, left, 7, &found, NULL) == TUTTI_OK && found == 0);

  // A probe that times out changes nothing.
  CHECK_FAILS(TUTTI_TIMEOUT, "timed out after 0.01 s", tutti_probe(comm, left, 9, 10, NULL));

  // The second of two receives is done first.
  int32_t value[2] = {0, 0};
  CHECK(tutti_recv(comm, &value[0], 1, TUTTI_I32, left, 10, &starts[0], NULL) == TUTTI_OK);
  CHECK(tutti_recv(comm, &value[1], 1, TUTTI_I32, left, 11, &starts[1], NULL) == TUTTI_OK);
  CHECK(tutti_send(comm, in, 1, TUTTI_I32, right, 11, NULL) == TUTTI_OK);
  CHECK(tutti_work_wait_any(work, 2, &index) == TUTTI_OK && index == 1 && value[1] == x(left, 0));
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
  CHECK(tutti_send(comm, in, 1, TUTTI_I32, right, 10, NULL) == TUTTI_OK);
  CHECK(tutti_work_wait_all(work, 2) == TUTTI_OK && value[0] == x(left, 0));
  CHECK(tutti_work_free(work[0]) == TUTTI_OK && tutti_work_free(work[1]) == TUTTI_OK);

  // A message that does not fit is dropped, and the communicator goes on.
  CHECK(tutti_send(comm, in, 4, TUTTI_I32, right, 8, NULL) == TUTTI_OK);
  CHECK_FAILS(TUTTI_TRUNCATED, "4", tutti_recv(comm, out, 2, TUTTI_I32, left, 8, NULL, NULL));
  CHECK(tutti_barrier(comm, NULL) == TUTTI_OK);
}

static void groups(void) {
  const int32_t ends[] = {n - 1, 0};
  int32_t rank = -1, size = -1, local_rank = -1, local_size = -1;
  tutti_comm* made = NULL;
  CHECK(tutti_comm_local_rank(comm, &local_rank) == TUTTI_OK && local_rank == me);
  CHECK(tutti_comm_local_size(comm, &local_size) == TUTTI_OK && local_size == n);
  if (me == 0 || me == n - 1) {
    CHECK(tutti_comm_subgroup(comm, ends, 2, &made) == TUTTI_OK);
    CHECK(tutti_comm_rank(made, &rank) == TUTTI_OK && rank == (me == 0 ? 1 : 0));
    CHECK(tutti_comm_free(made) == TUTTI_OK);
  }
  CHECK(tutti_comm_split(comm, me % 2, -me, &made) == TUTTI_OK);
  CHECK(tutti_comm_size(made, &size) == TUTTI_OK && size == (n + 1 - me % 2) / 2);
  CHECK(tutti_comm_rank(made, &rank) == TUTTI_OK && rank == (n - 1 - me) / 2);
  CHECK(tutti_comm_free(made) == TUTTI_OK);
  CHECK(tutti_comm_split(comm, me == 0 ? TUTTI_NO_GROUP : 3, 0, &made) == TUTTI_OK && (made == NULL) == (me == 0));
  CHECK(tutti_comm_free(made) == TUTTI_OK);
  CHECK(tutti_comm_split_by_host(comm, &made) == TUTTI_OK);
  CHECK(tutti_comm_rank(made, &rank) == TUTTI_OK && rank == me);
  CHECK(tutti_comm_free(made) == TUTTI_OK);
  CHECK(tutti_comm_shrink(comm, 30000, &made) == TUTTI_OK);  // nobody is lost
  CHECK(tutti_comm_size(made, &size) == TUTTI_OK && size == n);
  CHECK(tutti_comm_abort(made, "the end of the test") == TUTTI_OK);
  CHECK_FAILS(TUTTI_ABORTED, "the end of the test", tutti_barrier(made, NULL));
  CHECK(tutti_comm_free(made) == TUTTI_OK);
}

/// A user's op with a context: the larger absolute value, and how many elements it has seen.
static void larger(void* accumulated, const void* operand, uint64_t count, void* context) {
  float* const a = accumulated;
  const float* const b = operand;
  for (uint64_t i = 0; i < count; ++i) a[i] = a[i] * a[i] > b[i] * b[i] ? a[i] : b[i];
  *(uint64_t*)context += count;
}

static void ops(void) {
  tutti_op* op = NULL;
  uint64_t seen = 0;
  float value[2] = {(float)(me == 1 ? -7 : me), 1};
  tutti_call_options options = {.size = sizeof options, .algorithm = "direct"};
  CHECK(tutti_op_create(TUTTI_F32, larger, &seen, &op) == TUTTI_OK);
  options.op = op;
  CHECK(tutti_all_reduce(comm, value, value, 2, TUTTI_F32, TUTTI_USER, &options) == TUTTI_OK);
  CHECK(value[0] == -7 && value[1] == 1 && seen > 0);
  CHECK(tutti_op_free(op) == TUTTI_OK);

  CHECK(tutti_op_create_premul_sum(0.5, &op) == TUTTI_OK);
  options = (tutti_call_options){.size = sizeof options, .op = op};
  value[0] = (float)me;
  CHECK(tutti_all_reduce(comm, value, value, 1, TUTTI_F32, TUTTI_PREMUL_SUM, &options) == TUTTI_OK);
  CHECK(value[0] == (float)(n * (n - 1)) / 4);
  CHECK(tutti_op_free(op) == TUTTI_OK);
}

static void words(void) {
  char text[64] = "";
  CHECK(strchr(tutti_version(), '.') && tutti_abi_version() == 0);
  CHECK(strcmp(tutti_result_name(TUTTI_PEER_LOST), "peer_lost") == 0 && strcmp(tutti_result_name(99), "unknown") == 0);
  CHECK(tutti_chosen_algorithm(comm, TUTTI_ALL_REDUCE, 1024, text, sizeof text) == TUTTI_OK && strlen(text) > 1);
  CHECK(tutti_transport_to(comm, (me + 1) % n, text, sizeof text) == TUTTI_OK && strlen(text) > 1);
}

int main(void) {
  alarm(patience());
  CHECK(tutti_connect(NULL, &comm) == TUTTI_OK);
  if (!comm) return 1;
  CHECK(tutti_comm_rank(comm, &me) == TUTTI_OK && tutti_comm_size(comm, &n) == TUTTI_OK);
  if (n < 2 || n > 4) return fprintf(stderr, "this test is for 2 to 4 ranks\n"), 1;
  for (int k = 0; k < n; ++k) {
    counts[k] = (uint64_t)(k + 1);
    displacements[k] = (uint64_t)(part * k);
    shared_counts[k] = (uint64_t)(me + k + 1);
    wide_displacements[k] = (uint64_t)(wide * k);
  }
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    wait_for_result(&rows[i]);
    start(&rows[i]);
    prepare(&rows[i]);
    do_in_place(&rows[i]);
  }
  messages();
  groups();
  ops();
  words();
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  return failures != 0;
}
