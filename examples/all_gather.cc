// All-gather: every rank brings a part, and every rank gets all parts, one after the other.
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  auto comm = tutti::connect();
  const auto n = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());

  const std::vector<std::size_t> mine = {10 * rank, 10 * rank + 1};
  std::vector<std::size_t> all(2 * n);
  comm.all_gather(mine, all);

  // Parts of different sizes: rank k brings k + 1 letters. All ranks know all sizes.
  std::vector<std::size_t> counts(n);
  std::iota(counts.begin(), counts.end(), 1);
  const std::vector<char> word(rank + 1, static_cast<char>('a' + rank % 26));
  std::vector<char> letters(n * (n + 1) / 2);
  comm.all_gather_v(word, letters, counts);

  bool right = true;
  for (std::size_t k = 0, at = 0; k < n; ++k) {
    right = right && all[2 * k] == 10 * k && all[2 * k + 1] == 10 * k + 1;
    for (std::size_t i = 0; i <= k; ++i) right = right && letters[at++] == static_cast<char>('a' + k % 26);
  }
  std::printf("rank %zu has %zu numbers and \"%.*s\"\n", rank, all.size(), static_cast<int>(letters.size()),
              letters.data());
  return right ? 0 : 1;
}
