#define TUTTI_TABLE avx512_table
#define TUTTI_ISA "avx512"
#include "lib/compute/kernels.inl"
