#pragma once

#include <memory>

#include "tutti/c_store.h"
#include "tutti/communicator.h"
#include "tutti/persistent.h"
#include "tutti/store.h"
#include "tutti/types.h"
#include "tutti/work.h"

// What the handles of the C interface are: one object of the C++ interface each.

struct tutti_comm {
  tutti::Communicator comm;
};

struct tutti_work {
  tutti::Work work;
};

namespace tutti::c_api {

/// Gives the program the handle of what `start` starts.
template <class Start>
void give_handle(tutti_work*& handle, const Start& start) {
  auto made = std::make_unique<tutti_work>();  // first: what has started must not get lost
  made->work = start();
  handle = made.release();
}

}  // namespace tutti::c_api

struct tutti_persistent {
  tutti::Persistent call;
};

struct tutti_op {
  tutti::Op op;
};

struct tutti_store {
  std::shared_ptr<tutti::Store> store;
  std::shared_ptr<tutti::Store> first;  // the one that was opened, in which this process may serve its clones
};
