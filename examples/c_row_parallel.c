// A layer of a language model in C, its weights spread over the ranks by rows of the input: y = W x, where each rank
// has some columns of W and those elements of x. The partial products are added up in place, with one all-reduce.
#include <stdio.h>
#include <stdlib.h>
#include <tutti/c.h>

enum { inputs = 1536, outputs = 512 };

static void require(tutti_result result) {
  if (result == TUTTI_OK) return;
  fprintf(stderr, "%s\n", tutti_last_error());
  exit(1);
}

// Small whole numbers, so that sums are exact in any order.
static float weight(int row, int column) { return (float)((row + 3 * column) % 7 - 3); }
static float activation(int column) { return (float)(column % 5 - 2); }

static float product(int row, int first, int end) {
  float sum = 0;
  for (int column = first; column < end; ++column) sum += weight(row, column) * activation(column);
  return sum;
}

int main(void) {
  tutti_comm* comm = NULL;
  int32_t rank, size;
  require(tutti_connect(NULL, &comm));
  require(tutti_comm_rank(comm, &rank));
  require(tutti_comm_size(comm, &size));

  float* const y = malloc(outputs * sizeof *y);
  if (!y) return 1;
  const int first = inputs * rank / size;
  const int end = inputs * (rank + 1) / size;

  // A model makes this call for each layer of each token: prepared, it costs the least.
  tutti_persistent* add_up = NULL;
  const tutti_call_options options = {.size = sizeof options, .persistent = &add_up};
  require(tutti_all_reduce(comm, y, y, outputs, TUTTI_F32, TUTTI_SUM, &options));
  int wrong = 0;
  for (int token = 0; token < 3; ++token) {
    for (int row = 0; row < outputs; ++row) y[row] = product(row, first, end);
    require(tutti_persistent_run(add_up));
    for (int row = 0; row < outputs; ++row) wrong += y[row] != product(row, 0, inputs);
  }
  printf("rank %d multiplies columns %d to %d, %d outputs are wrong\n", rank, first, end - 1, wrong);

  require(tutti_persistent_free(add_up));
  require(tutti_comm_free(comm));
  free(y);
  return wrong != 0;
}
