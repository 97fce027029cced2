#define TUTTI_TABLE generic_table
#define TUTTI_ISA "generic"
#include "lib/compute/kernels.inl"
