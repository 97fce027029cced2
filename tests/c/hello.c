// What a user's first program in C looks like. Every rank brings a gradient, and every rank gets the average.
#include <stdio.h>
#include <tutti/c.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tutti_last_error());
  return 1;
}

int main(void) {
  tutti_comm* comm = NULL;
  int32_t rank = 0;
  int32_t size = 0;
  float gradient[1000];
  if (tutti_connect(NULL, &comm)) return failed("connect");
  if (tutti_comm_rank(comm, &rank) || tutti_comm_size(comm, &size)) return failed("rank and size");
  for (int i = 0; i < 1000; ++i) gradient[i] = (float)rank;
  if (tutti_all_reduce(comm, gradient, gradient, 1000, TUTTI_F32, TUTTI_AVG, NULL)) return failed("all_reduce");
  printf("rank %d of %d: %g\n", rank, size, (double)gradient[999]);
  const int right = gradient[999] == (float)(size - 1) / 2;
  return tutti_comm_free(comm) || !right;
}
