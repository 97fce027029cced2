// Stores: what one rank sets the others see, over TCP with a secret, alone, and in a file.
#include <tutti/c_store.h>

#include "check.h"

struct values {
  int count;
  char text[4][64];
  uint64_t bytes[4];
};

static void take(const void* value, uint64_t bytes, void* context) {
  struct values* const values = context;
  CHECK(values->count < 4 && bytes < 64);
  memcpy(values->text[values->count], value, bytes);
  values->bytes[values->count++] = bytes;
}

static char url[64];
static const char secret[] = "sixteen characters or more";

static tutti_connect_options options_of(int rank, int ranks) {
  return (tutti_connect_options){.size = sizeof(tutti_connect_options),
                                 .rank = rank,
                                 .ranks = ranks,
                                 .rendezvous = url,
                                 .setup_timeout_ms = 30000};
}

/// Rank 0 serves, so it is the last to go.
static void say_goodbye(tutti_store* store, int rank, int ranks) {
  char key[16];
  const char* const name = key;
  for (int k = 1; k < ranks; ++k) {
    if (rank != 0 && rank != k) continue;
    snprintf(key, sizeof key, "done %d", k);
    if (rank == k) CHECK(tutti_store_set(store, key, NULL, 0) == TUTTI_OK);
    if (rank == 0) CHECK(tutti_store_wait(store, &name, 1, 0) == TUTTI_OK);
  }
}

/// Sets by one connection what the other waits for. The clone goes on without the first, which this frees.
static tutti_store* use_clone(tutti_store* store) {
  tutti_store* clone = NULL;
  int32_t there = 7;
  CHECK(tutti_store_clone(store, &clone) == TUTTI_OK);
  CHECK(tutti_store_set(clone, "of a clone", "x", 1) == TUTTI_OK);
  CHECK(tutti_store_wait(store, (const char*[]){"of a clone"}, 1, 0) == TUTTI_OK);
  CHECK(tutti_store_free(store) == TUTTI_OK);
  CHECK(tutti_store_check(clone, (const char*[]){"of a clone"}, 1, &there) == TUTTI_OK && there == 1);
  return clone;
}

/// The last rank pushes two values for each, in order. All pop two, and set a key for each: then none was popped twice.
static void use_queue(tutti_store* store, int rank, int ranks) {
  struct values values = {0};
  int64_t length = 7;
  char key[24];
  const char* const name = key;
  CHECK(tutti_store_queue_pop(store, "none", 0, take, &values) == TUTTI_OK && values.count == 0);
  for (char k = 0; rank == ranks - 1 && k < 2 * ranks; ++k)
    CHECK(tutti_store_queue_push(store, "queue", (char[]){'\0', k}, 2) == TUTTI_OK);
  for (int i = 0; i < 2; ++i) CHECK(tutti_store_queue_pop(store, "queue", 1, take, &values) == TUTTI_OK);
  CHECK(values.count == 2 && values.bytes[0] == 2 && values.bytes[1] == 2 && values.text[0][0] == '\0');
  CHECK(values.text[0][1] < values.text[1][1]);
  for (int i = 0; i < 2; ++i) {
    snprintf(key, sizeof key, "popped %d", values.text[i][1]);
    CHECK(tutti_store_set(store, key, NULL, 0) == TUTTI_OK);
  }
  for (int k = 0; k < 2 * ranks; ++k) {
    snprintf(key, sizeof key, "popped %d", k);
    CHECK(tutti_store_wait(store, &name, 1, 0) == TUTTI_OK);
  }
  CHECK(tutti_store_queue_length(store, "queue", &length) == TUTTI_OK && length == 0);
  CHECK(tutti_store_queue_length(store, "none", &length) == TUTTI_OK && length == 0);
  CHECK(tutti_store_set_timeout(store, 50) == TUTTI_OK);
  CHECK_FAILS(TUTTI_RENDEZVOUS, "none", tutti_store_queue_pop(store, "none", 1, take, &values));
  CHECK(tutti_store_set_timeout(store, 30000) == TUTTI_OK);
}

static int every_call(int rank, int ranks) {
  const tutti_connect_options options = options_of(rank, ranks);
  tutti_store* store = NULL;
  struct values values = {0};
  int64_t sum = 0;
  int32_t answer = 7;
  CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  if (!store) return failures;
  if (rank == ranks - 1) CHECK(tutti_store_set(store, "odd", "\0\xff\n/", 4) == TUTTI_OK);
  if (rank == ranks - 1) CHECK(tutti_store_append(store, "log", "ab", 2) == TUTTI_OK);
  if (rank == ranks - 1) CHECK(tutti_store_append(store, "log", "c", 1) == TUTTI_OK);
  if (rank == ranks - 1) CHECK(tutti_store_set(store, "last", NULL, 0) == TUTTI_OK);
  CHECK(tutti_store_wait(store, (const char*[]){"last"}, 1, 30000) == TUTTI_OK);
  CHECK(tutti_store_get(store, (const char*[]){"odd", "log", "last"}, 3, take, &values) == TUTTI_OK);
  CHECK(values.count == 3 && values.bytes[0] == 4 && memcmp(values.text[0], "\0\xff\n/", 4) == 0);
  CHECK(values.bytes[1] == 3 && memcmp(values.text[1], "abc", 3) == 0 && values.bytes[2] == 0);
  CHECK(tutti_store_add(store, "here", 1, &sum) == TUTTI_OK && sum >= 1 && sum <= ranks);
  if (sum == ranks) CHECK(tutti_store_set(store, "all here", "", 0) == TUTTI_OK);
  CHECK(tutti_store_wait(store, (const char*[]){"all here"}, 1, 0) == TUTTI_OK);
  if (rank == 0) {
    // What is refused has done nothing.
    CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "sum is NULL", tutti_store_add(store, "here", 1, NULL));
    CHECK(tutti_store_add(store, "here", 0, &sum) == TUTTI_OK && sum == ranks);
    CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "existed is NULL", tutti_store_erase(store, "odd", NULL));
    CHECK(tutti_store_check(store, (const char*[]){"odd"}, 1, &answer) == TUTTI_OK && answer == 1);
    values.count = 0;
    CHECK(tutti_store_compare_set(store, "log", "abc", 3, "d", 1, take, &values) == TUTTI_OK);
    CHECK(values.count == 1 && values.bytes[0] == 1 && values.text[0][0] == 'd');
    CHECK(tutti_store_erase(store, "log", &answer) == TUTTI_OK && answer == 1);
    CHECK(tutti_store_erase(store, "log", &answer) == TUTTI_OK && answer == 0);
    CHECK(tutti_store_check(store, (const char*[]){"odd", "log"}, 2, &answer) == TUTTI_OK && answer == 0);
    CHECK(tutti_store_key_count(store, &sum) == TUTTI_OK && sum >= 4);
    CHECK_FAILS(TUTTI_RENDEZVOUS, "nothing", tutti_store_wait(store, (const char*[]){"nothing"}, 1, 50));
    CHECK(tutti_store_set_timeout(store, 50) == TUTTI_OK);
    CHECK_FAILS(TUTTI_RENDEZVOUS, "nothing", tutti_store_get(store, (const char*[]){"nothing"}, 1, take, &values));
    CHECK(tutti_store_set_timeout(store, 30000) == TUTTI_OK);
    store = use_clone(store);
  }
  use_queue(store, rank, ranks);
  say_goodbye(store, rank, ranks);
  CHECK(tutti_store_free(store) == TUTTI_OK);
  return failures;
}

/// The keys of a store are apart from those of the communicator that ranks make after it, and of the next store.
static int beside_communicators(int rank, int ranks) {
  const tutti_connect_options options = options_of(rank, ranks);
  tutti_store *store = NULL, *next = NULL;
  tutti_comm* comm = NULL;
  struct values keys = {0};
  int32_t there = 7;
  CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  CHECK(tutti_store_set(store, "key", "", 0) == TUTTI_OK);
  CHECK(tutti_store_list_keys(store, take, &keys) == TUTTI_OK);
  CHECK(keys.count == 1 && keys.bytes[0] == 3 && memcmp(keys.text[0], "key", 3) == 0);
  CHECK(tutti_connect(&options, &comm) == TUTTI_OK);
  CHECK(tutti_store_open(&options, &next) == TUTTI_OK);
  CHECK(tutti_store_check(store, (const char*[]){"key"}, 1, &there) == TUTTI_OK && there == 1);
  CHECK(tutti_store_check(next, (const char*[]){"key"}, 1, &there) == TUTTI_OK && there == 0);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
  say_goodbye(next, rank, ranks);
  CHECK(tutti_store_free(next) == TUTTI_OK && tutti_store_free(store) == TUTTI_OK);
  return failures;
}

/// Rank 1 does not know the secret of rank 0, then it does.
static int with_wrong_secret(int rank, int ranks) {
  tutti_connect_options options = options_of(rank, ranks);
  tutti_store *store = NULL, *next = NULL;
  if (rank == 1) {
    setenv("TUTTI_SECRET", "another one of sixteen", 1);
    options.setup_timeout_ms = 5000;
    CHECK_FAILS(TUTTI_RENDEZVOUS, "secret", tutti_store_open(&options, &store));
    CHECK(store == NULL);
  } else {
    CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  }
  setenv("TUTTI_SECRET", secret, 1);
  CHECK(tutti_store_open(&options, &next) == TUTTI_OK);
  say_goodbye(next, rank, ranks);
  CHECK(tutti_store_free(next) == TUTTI_OK && tutti_store_free(store) == TUTTI_OK);
  return failures;
}

/// What a rank sets that takes itself for the only one is seen by others.
static int seen_by_others(int rank, int ranks) {
  const tutti_connect_options options = options_of(rank, rank + 1);
  const char* const key = "of one alone";
  tutti_store* store = NULL;
  struct values values = {0};
  CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  if (rank == 0) CHECK(tutti_store_set(store, key, "green", 5) == TUTTI_OK);
  CHECK(tutti_store_get(store, &key, 1, take, &values) == TUTTI_OK);
  CHECK(values.count == 1 && values.bytes[0] == 5 && memcmp(values.text[0], "green", 5) == 0);
  say_goodbye(store, rank, ranks);
  CHECK(tutti_store_free(store) == TUTTI_OK);
  return failures;
}

static int refused(int rank, int ranks) {
  tutti_connect_options options = {.size = sizeof options};
  tutti_store *store = NULL, *clone = NULL;
  struct values values = {0};
  tutti_unique_id id;
  (void)rank, (void)ranks;
  CHECK(tutti_store_open(NULL, &store) == TUTTI_OK);  // alone
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "key is NULL", tutti_store_set(store, NULL, "", 0));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "value is NULL", tutti_store_set(store, "key", NULL, 1));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "keys is NULL", tutti_store_get(store, NULL, 1, take, &values));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "take is NULL", tutti_store_get(store, NULL, 0, NULL, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "sum is NULL", tutti_store_add(store, "key", 1, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "name is NULL", tutti_store_queue_push(store, NULL, "", 0));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "take is NULL", tutti_store_queue_pop(store, "queue", 0, NULL, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "values is NULL", tutti_store_queue_length(store, "queue", NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "take is NULL", tutti_store_list_keys(store, NULL, NULL));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "not above 0", tutti_store_set_timeout(store, 0));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "negative", tutti_store_wait(store, NULL, 0, -1));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "store is NULL", tutti_store_set(NULL, "key", "", 0));
  CHECK(tutti_store_free(use_clone(store)) == TUTTI_OK);
  memset(&id, 7, sizeof id);
  options.ranks = 1;
  options.id = &id;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "for tutti_connect()", tutti_store_open(&options, &store));
  options.id = NULL;
  options.setup_timeout_ms = -1;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "negative", tutti_store_open(&options, &store));
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "store is NULL", tutti_store_clone(NULL, &clone));
  CHECK(tutti_store_free(NULL) == TUTTI_OK);
  return failures;
}

static int in_a_file(int rank, int ranks) {
  const tutti_connect_options options = options_of(rank, ranks);
  tutti_store *store = NULL, *clone = NULL;
  CHECK(tutti_store_open(&options, &store) == TUTTI_OK);
  CHECK(tutti_store_set(store, rank ? "one" : "zero", "", 0) == TUTTI_OK);
  CHECK(tutti_store_wait(store, (const char*[]){"zero", "one"}, 2, 0) == TUTTI_OK);
  CHECK_FAILS(TUTTI_UNSUPPORTED, "no clones", tutti_store_clone(store, &clone));
  CHECK(tutti_store_free(store) == TUTTI_OK);
  return failures;
}

int main(void) {
  char folder[] = "/tmp/tutti-store-XXXXXX";
  int wrong = run_ranks(1, -1, refused);
  snprintf(url, sizeof url, "tcp://127.0.0.1:%d", held_port());
  wrong += run_ranks(2, -1, seen_by_others);
  wrong += run_ranks(3, -1, every_call);
  wrong += run_ranks(2, -1, beside_communicators);
  setenv("TUTTI_SECRET", secret, 1);
  wrong += run_ranks(3, -1, every_call);
  wrong += run_ranks(2, -1, with_wrong_secret);
  unsetenv("TUTTI_SECRET");
  if (!mkdtemp(folder)) return 1;
  snprintf(url, sizeof url, "file://%s/store", folder);
  wrong += run_ranks(2, -1, in_a_file);
  CHECK(rmdir(folder) == 0);
  return wrong != 0 || failures != 0;
}
