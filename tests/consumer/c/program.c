// What program.cc does, in C.
#include <stdio.h>
#include <tutti/c.h>

int main(void) {
  tutti_comm* comm = NULL;
  int32_t rank = 0;
  int32_t size = 0;
  float data[1000];
  if (tutti_connect(NULL, &comm) || tutti_comm_rank(comm, &rank) || tutti_comm_size(comm, &size)) return 1;
  for (int i = 0; i < 1000; ++i) data[i] = (float)(rank + i);
  if (tutti_all_reduce(comm, data, data, 1000, TUTTI_F32, TUTTI_SUM, NULL)) return 2;
  printf("rank %d of %d: %.0f\n", rank, size, (double)data[999]);
  return tutti_comm_free(comm);
}
