#pragma once

#include "tutti/allocate.h"
#include "tutti/collective_calls.h"
#include "tutti/communicator.h"
#include "tutti/counts.h"
#include "tutti/error.h"
#include "tutti/options.h"
#include "tutti/persistent.h"
#include "tutti/run_threads.h"
#include "tutti/store.h"
#include "tutti/types.h"
#include "tutti/version.h"
#include "tutti/work.h"
