// Sub-groups: ranks form smaller communicators with ranks of their own, here the even and the odd ones, and use them
// side by side with the large one.
#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  auto comm = tutti::connect();
  auto group = comm.split(comm.rank() % 2);  // ranks with equal colours form a group; all ranks call

  std::vector<int> in_group = {comm.rank()};
  std::vector<int> overall = {comm.rank()};
  group.all_reduce(in_group, tutti::sum);
  comm.all_reduce(overall, tutti::sum);

  // The same without a message: every rank knows the members, and only they call.
  std::vector<int> from_first = {comm.rank()};
  if (comm.rank() < 2 && comm.size() >= 2) {
    auto pair = comm.subgroup({0, 1});
    pair.broadcast(from_first, 0);
  }

  int expected = 0;
  for (int rank = comm.rank() % 2; rank < comm.size(); rank += 2) expected += rank;
  std::printf("rank %d is rank %d of %d in the %s group: sum %d there, %d overall\n", comm.rank(), group.rank(),
              group.size(), comm.rank() % 2 == 0 ? "even" : "odd", in_group[0], overall[0]);
  const bool right = in_group[0] == expected && overall[0] == comm.size() * (comm.size() - 1) / 2 &&
                     group.rank() == comm.rank() / 2 && from_first[0] == (comm.rank() < 2 ? 0 : comm.rank());
  return right ? 0 : 1;
}
