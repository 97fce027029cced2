#pragma once

#include <tutti/c.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "communicator.h"

namespace tutti_torch {

/// What a program may say when it makes a process group; "" and 0 are the defaults of <tutti/c.h>.
struct Settings {
  std::string transport;
  std::string tuning_file;
  std::string plan_file;
  std::chrono::milliseconds lost_after{0};
  bool deterministic = false;
  bool tls = false;
};

/// Lets `size` ranks meet by way of PyTorch's store, which only passes on where, and a secret. Every rank calls.
tutti_comm* meet(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout, const Settings& settings);

/// Makes a communicator of some ranks of one that exists. No message is sent, and only they call.
tutti_comm* sub_group(Communicator& parent, const std::vector<int>& ranks);

}  // namespace tutti_torch
