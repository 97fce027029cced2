#pragma once

// What the tests in C share: checks that count, and ranks as processes of their own.

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <tutti/c.h>
#include <unistd.h>

static int failures = 0;

#define CHECK(condition)                                                                                  \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, tutti_last_error()); \
      ++failures;                                                                                         \
    }                                                                                                     \
  } while (0)

#define CHECK_FAILS(code, words, call)                                                                        \
  do {                                                                                                        \
    const tutti_result result = (call);                                                                       \
    if (result != (code) || !strstr(tutti_last_error(), words)) {                                             \
      fprintf(stderr, "%s:%d: %s is %d (%s) and not %d with \"%s\": %s\n", __FILE__, __LINE__, #call, result, \
              tutti_result_name(result), (code), words, tutti_last_error());                                  \
      ++failures;                                                                                             \
    }                                                                                                         \
  } while (0)

static inline tutti_comm* connected(const char* url, int rank, int ranks) {
  tutti_comm* comm = NULL;
  const tutti_connect_options options = {
      .size = sizeof options, .rank = rank, .ranks = ranks, .rendezvous = url, .timeout_ms = 60000};
  CHECK(tutti_connect(&options, &comm) == TUTTI_OK);
  return comm;
}

/// A port that nobody else gets as long as this process lives: a store can share it (SO_REUSEADDR) with a socket that
/// does not listen.
static inline int held_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  const int held = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  CHECK(setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  CHECK(bind(held, (struct sockaddr*)&address, size) == 0);
  CHECK(getsockname(held, (struct sockaddr*)&address, &size) == 0);
  return ntohs(address.sin_port);
}

static inline unsigned patience(void) {
  const char* seconds = getenv("WATCHDOG_SECONDS");
  return seconds ? (unsigned)atoi(seconds) : 60;
}

/// Runs `body` in a process for each rank. Returns how many ended otherwise than with 0, or, `killed` (-1: none), by
/// SIGKILL. Every process ends within the patience.
static inline int run_ranks(int ranks, int killed, int (*body)(int rank, int ranks)) {
  int wrong = 0;
  pid_t pids[16];
  for (int rank = 0; rank < ranks; ++rank) {
    pids[rank] = fork();
    if (pids[rank] < 0) return ranks;
    if (pids[rank] == 0) {
      alarm(patience());
      exit(body(rank, ranks));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    const int came = waitpid(pids[rank], &status, 0) == pids[rank];
    const int as_wanted =
        rank == killed ? WIFSIGNALED(status) && WTERMSIG(status) == 9 : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (came && as_wanted) continue;
    fprintf(stderr, "rank %d ended with status %x\n", rank, (unsigned)status);
    ++wrong;
  }
  return wrong;
}
