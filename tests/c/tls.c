// Ranks that meet by an id and encrypt: what somebody hears who is between them and the id's store.
#define _GNU_SOURCE  // memmem
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "check.h"

enum { ranks_here = 3, most_pairs = 16, most_heard = 1 << 20, slot = 512 };

static struct shared {
  pthread_barrier_t ranks;
  pthread_barrier_t all;
  tutti_unique_id id;  // leads to the listener
  char tickets[ranks_here][slot];
  in_port_t store;  // in the order of the network, as the next
  in_port_t listener;
  size_t heard;
  char bytes[most_heard];
} * shared;

static int has_heard(const char* word) { return memmem(shared->bytes, shared->heard, word, strlen(word)) != NULL; }

// ---- The listener ------------------------------------------------------------------------------------------------

static struct sockaddr_in loopback(in_port_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Hands on what has come from one side to the other, and keeps it. False: the side has ended.
static int hand_on(int from, int to) {
  char* const at = shared->bytes + shared->heard;
  const ssize_t got = recv(from, at, most_heard - shared->heard, 0);
  if (got <= 0) return 0;
  shared->heard += (size_t)got;
  return send(to, at, (size_t)got, MSG_NOSIGNAL) == got;
}

/// Until it is killed.
static int listen_in(int listener) {
  struct pollfd ends[1 + 2 * most_pairs] = {{.fd = listener, .events = POLLIN}};
  int count = 1;
  while (poll(ends, (nfds_t)count, -1) > 0) {
    for (int i = 1; i < count; ++i) {
      const int other = (i - 1) % 2 == 0 ? i + 1 : i - 1;
      if (!ends[i].revents || ends[i].fd < 0 || hand_on(ends[i].fd, ends[other].fd)) continue;
      close(ends[i].fd), close(ends[other].fd);
      ends[i].fd = ends[other].fd = -1;
    }
    if (!ends[0].revents || count + 2 > 1 + 2 * most_pairs) continue;
    const struct sockaddr_in store = loopback(shared->store);
    const int client = accept(listener, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || connect(server, (const struct sockaddr*)&store, sizeof store) != 0) return 1;
    ends[count++] = (struct pollfd){.fd = client, .events = POLLIN};
    ends[count++] = (struct pollfd){.fd = server, .events = POLLIN};
  }
  return 1;
}

static pid_t start_listener(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  CHECK(bind(listener, (const struct sockaddr*)&address, size) == 0 && listen(listener, most_pairs) == 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &size) == 0);
  shared->listener = address.sin_port;
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(patience());
    _exit(listen_in(listener));
  }
  close(listener);
  return pid;
}

/// Lets `id` lead to the listener (lib/c/unique_id.cc).
static void lead_astray(char* id) {
  shared->store = htons((in_port_t)((unsigned char)id[8] | (unsigned char)id[9] << 8));
  id[8] = (char)ntohs(shared->listener), id[9] = (char)(ntohs(shared->listener) >> 8);
}

// ---- The ranks ---------------------------------------------------------------------------------------------------

static tutti_connect_options options_of(int rank, int tls) {
  return (tutti_connect_options){
      .size = sizeof(tutti_connect_options), .rank = rank, .ranks = ranks_here, .setup_timeout_ms = 30000, .tls = tls};
}

static void meet(const tutti_connect_options* options) {
  tutti_comm* comm = NULL;
  int32_t one = 1;
  CHECK(tutti_connect(options, &comm) == TUTTI_OK);
  if (!comm) return;
  CHECK(tutti_all_reduce(comm, &one, &one, 1, TUTTI_I32, TUTTI_SUM, NULL) == TUTTI_OK);
  CHECK(one == ranks_here);
  CHECK(tutti_comm_free(comm) == TUTTI_OK);
}

static void by_id(int rank, int tls) {
  tutti_connect_options options = options_of(rank, tls);
  options.id = &shared->id;
  meet(&options);
}

static void in_clear(int rank) { by_id(rank, 0); }
static void by_option(int rank) { by_id(rank, 1); }
static void by_variable(int rank) {
  setenv("TUTTI_TLS", "1", 1);
  by_id(rank, 0);
}

static int32_t all_gather(const void* mine, void* all, uint64_t bytes, void* context) {
  const int rank = *(const int*)context;
  if (bytes > slot) return 1;
  memcpy(shared->tickets[rank], mine, bytes);
  pthread_barrier_wait(&shared->ranks);
  for (int k = 0; k < ranks_here; ++k) memcpy((char*)all + (uint64_t)k * bytes, shared->tickets[k], bytes);
  char* const id = memmem(all, bytes, "tutti id", 8);
  if (rank != 0 && id) lead_astray(id);
  pthread_barrier_wait(&shared->ranks);
  return id ? 0 : 2;
}

static void by_all_gather(int rank) {
  tutti_connect_options options = options_of(rank, 1);
  options.all_gather = all_gather, options.all_gather_context = &rank;
  meet(&options);
}

/// Ranks that encrypt and ranks that do not find the store of one id, so they can say so to each other.
static void in_disagreement(int rank) {
  tutti_comm* comm = NULL;
  tutti_connect_options options = options_of(rank, rank == 1);
  options.id = &shared->id;
  CHECK_FAILS(TUTTI_RENDEZVOUS, "rank 1 encrypts its connections and rank", tutti_connect(&options, &comm));
}

static void without_secret(int rank) {
  tutti_comm* comm = NULL;
  tutti_connect_options options = options_of(rank, 1);
  unsetenv("TUTTI_SECRET");
  options.id = &shared->id;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "TUTTI_SECRET", tutti_connect(&options, &comm));
  options.id = NULL, options.all_gather = all_gather, options.all_gather_context = &rank;
  CHECK_FAILS(TUTTI_INVALID_ARGUMENT, "TUTTI_SECRET", tutti_connect(&options, &comm));
}

/// The last process is no rank. It has the store of the id, so that no rank ends that while others still use it.
static void (*of_ranks)(int rank);
static int run_process(int process, int processes) {
  if (process == processes - 1) {
    CHECK(tutti_unique_id_create(&shared->id) == TUTTI_OK);
    lead_astray(shared->id.bytes);
  }
  pthread_barrier_wait(&shared->all);
  if (process < processes - 1) of_ranks(process);
  pthread_barrier_wait(&shared->all);
  return failures;
}

static void run(void (*body)(int rank)) {
  of_ranks = body;
  shared->heard = 0;
  const pid_t listener = start_listener();
  CHECK(run_ranks(ranks_here + 1, -1, run_process) == 0);
  CHECK(kill(listener, SIGKILL) == 0 && waitpid(listener, NULL, 0) == listener);
}

/// Whether what the ranks say to the store can be read on the way.
static void check_readable(int readable, void (*body)(int rank)) {
  const char* const said[] = {"rank_info", "token", "pid "};
  run(body);
  CHECK(shared->heard > 1000);
  for (size_t i = 0; i < sizeof said / sizeof *said; ++i) CHECK(has_heard(said[i]) == readable);
}

static void make_barrier(pthread_barrier_t* barrier, unsigned processes) {
  pthread_barrierattr_t between_processes;
  pthread_barrierattr_init(&between_processes);
  pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(barrier, &between_processes, processes);
}

int main(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  make_barrier(&shared->ranks, ranks_here);
  make_barrier(&shared->all, ranks_here + 1);
  setenv("TUTTI_SECRET", "what the members of this job know", 1);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
  check_readable(1, in_clear);
  check_readable(0, by_option);
  check_readable(0, by_variable);
  check_readable(0, by_all_gather);
  run(in_disagreement);
  run(without_secret);
  return failures != 0;
}
