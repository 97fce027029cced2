#pragma once

namespace tutti {

/// The most ranks of a job, however it is started: messages of the failure detector count ranks in 16 bits.
inline constexpr int most_ranks_of_job = 65'535;

}  // namespace tutti
