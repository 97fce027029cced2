#include "lib/message/eager_credit.h"

#include <doctest/doctest.h>

namespace tutti::detail {
namespace {

TEST_CASE("a sender may have a mebibyte at a receiver, who returns credit in halves of it") {
  EagerCredit sender, receiver;
  constexpr std::size_t bytes = 1024 - EagerCredit::overhead;
  std::size_t sent = 0;
  const auto send_all = [&] {
    for (; sender.allows(bytes); ++sent) sender.spend(bytes);
  };
  send_all();
  CHECK(sent == 1024);
  CHECK(!sender.allows(0));
  std::size_t received = 0;
  for (; !receiver.owes_lump(); ++received) receiver.consume(bytes);
  CHECK(received == 512);
  sender.returned(receiver.settle());
  CHECK(!receiver.owes_lump());
  send_all();
  CHECK(sent == 1024 + 512);
  sender.restore(bytes);  // what has gone straight to its place
  CHECK(sender.allows(bytes));
  sender.returned(~std::uint64_t{0});  // more than it has spent, from a peer that is not right
  CHECK(sender.allows(EagerCredit::limit - EagerCredit::overhead));
  CHECK(!sender.allows(EagerCredit::limit));
}

}  // namespace
}  // namespace tutti::detail
