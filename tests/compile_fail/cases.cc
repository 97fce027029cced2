// Programs that must not compile, one per CASE; without a CASE this file must compile, so that a case can only fail for
// its own reason. After `//` stands what the compiler's message must contain, before it, between stars, an option.
#if CASE == 9 /* -D_GLIBCXX_USE_CXX11_ABI=0 */  // this std::string is not that of libtutti.a. Compile without it
#elif CASE == 10 /* -D_GLIBCXX_DEBUG */  // this std::vector is not that of libtutti.a. Compile with _GLIBCXX_ASSERTIONS
#endif
#include <tutti/tutti.h>

#include <array>
#include <span>
#include <string>
#include <vector>

struct Point {
  double x;
  int tag;
};

void calls(tutti::Communicator& comm) {
  std::vector<float> floats(8), more_floats(8);
  const std::vector<float> constant(8);
  std::vector<double> doubles(8);
  std::vector<std::string> words(8);
  std::vector<Point> points(8), more_points(8);
  const std::vector<std::size_t> sizes(2);
#if CASE == 1  // elements are trivially copyable
  comm.all_gather(words, words);
#elif CASE == 2   // writes to this buffer, which is const
  comm.all_reduce(constant, tutti::sum);
#elif CASE == 3   // writes to this buffer, which is const
  comm.all_reduce(floats, constant, tutti::sum);
#elif CASE == 4   // elements of the same type
  comm.all_reduce(floats, doubles, tutti::sum);
#elif CASE == 5   // unused|nodiscard
  comm.async().all_reduce(floats, tutti::sum);
#elif CASE == 6   // writes to this buffer, which is const
  comm.recv(constant, 0);
#elif CASE == 7   // deleted|private
  tutti::Communicator copy = comm;
#elif CASE == 8   // vector<bool> has bits
  std::vector<bool> bits(8);
  comm.broadcast(bits, 0);
#elif CASE == 11  // this buffer is a temporary
  tutti::Work work = comm.async().all_reduce(std::vector<float>(8), tutti::sum);
#elif CASE == 12  // this buffer is a temporary
  tutti::Work work = comm.async().all_gather(std::array<float, 1>{}, floats);
#elif CASE == 13  // this buffer is a temporary
  tutti::Persistent call = comm.prepare().broadcast(std::vector<float>(8), 0);
#elif CASE == 14  // this buffer is a temporary
  tutti::Work work = comm.isend(std::vector<float>(8), 0);
#elif CASE == 15  // this buffer is a temporary
  tutti::Work work = comm.irecv(std::vector<float>(8), 0);
#elif CASE == 16  // reductions combine integers
  comm.all_reduce(points, tutti::sum);
#elif CASE == 17  // elements are trivially copyable and no pointers
  std::vector<float*> pointers(8);
  comm.send(pointers, 0);
#elif CASE == 18  // lie one after the other
  comm.broadcast(floats[0], 0);
#elif CASE == 19  // private
  tutti::Work work{static_cast<tutti::detail::Pending*>(nullptr)};
#elif CASE == 20  // private
  tutti::Communicator made{std::shared_ptr<tutti::detail::CommunicatorState>{}};
#elif CASE == 21  // private
  tutti::SharedArray<float> array{tutti::detail::Allocated{}, 8};
#elif CASE == 22  // private
  tutti::Persistent call{std::unique_ptr<tutti::detail::PersistentCall>{}};
#elif CASE == 23  // unused|nodiscard
  comm.prepare().barrier();
#elif CASE == 24  // no matching (member )?function
  comm.all_gather_v(floats, more_floats, std::vector<float>(2));
#elif CASE == 25  // no matching (member )?function
  comm.broadcast(floats);
#elif CASE == 26  // one buffer is in device memory and the other is not
  comm.all_reduce(floats, tutti::gpu::span(floats.data(), floats.size()), tutti::sum);
#elif CASE == 27  // the call writes to this buffer, which is const
  comm.broadcast(tutti::gpu::span(constant.data(), constant.size()), 0);
#else
  comm.all_reduce(floats, tutti::sum);
  comm.all_reduce(constant, floats, tutti::max);
  comm.all_gather(std::array<double, 1>{1.0}, std::span{doubles});
  tutti::Work work = comm.async().all_reduce(more_floats, tutti::sum);
  work.wait();
  tutti::Persistent call = comm.prepare().all_gather(floats, std::span{more_floats});
  call.run();
  comm.send(constant, 0);
  comm.isend(std::span{floats}.first(2), 0).wait();
  comm.recv(floats, 0);
  comm.broadcast(doubles, 0);
  comm.async().all_reduce(tutti::gpu::span(floats.data(), 2), tutti::sum, {.stream = nullptr}).wait();
  comm.gather(points, more_points, 0, {.algorithm = "direct"});
  comm.all_gather_v(floats, more_floats, {1, 2});
  comm.all_gather_v(floats, more_floats, std::vector<int>{1, 2});
  comm.all_to_all_v(floats, {{1, 2}, {0, 4}}, more_floats, sizes);
  comm.all_gather_v(floats, more_floats, {sizes, {0, 2}}, {.algorithm = "ring"});
  tutti::Communicator moved = std::move(comm);
#endif
}
