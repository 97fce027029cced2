#pragma once

#include <string>

namespace tutti::cli {

/// "NVIDIA H200 (1 GPU), driver: CUDA 13.0" of the first GPU; "driver: fake" for the model of a driver in tests, whose
/// times mean nothing. Only where cuda::available().
std::string gpus_text();

}  // namespace tutti::cli
