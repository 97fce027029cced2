#define TUTTI_TABLE avx2_table
#define TUTTI_ISA "avx2"
#include "lib/compute/kernels.inl"
