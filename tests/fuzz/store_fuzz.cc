// What clients say to the store's server, in pieces of any size, by three of them in turn: lengths are checked, memory
// stays within the budget, and nothing is left of a client that has gone.

#include <array>
#include <cstring>

#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_service.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;
using namespace tutti::rendezvous;

namespace {

constexpr std::size_t most_bytes = 100'000;
constexpr std::size_t most_request = 20'000;

class Guest final : public StoreService::Client {
 public:
  explicit Guest(StoreService& service) : service_(service) {}

  void hear(std::string_view bytes) {
    while (!gone_ && !bytes.empty()) {
      const std::size_t before = bytes.size();
      const auto status = parser_.feed(bytes);
      require(parser_.held_bytes() <= most_request + sizeof(std::string) + before);
      if (status == RequestParser::Status::refused) return leave();
      if (status != RequestParser::Status::complete) return require(bytes.empty());
      std::string answer;
      const auto outcome = service_.serve(*this, parser_.take(), answer);
      require(answer.size() <= most_bytes * 2);
      require((outcome == StoreService::Outcome::waiting) <= service_.is_waiting(*this));
      if (outcome == StoreService::Outcome::refused) return leave();
    }
  }
  void leave() {
    service_.leave(*this);
    require(!service_.is_waiting(*this));
    gone_ = true;
  }
  void stop_waiting() override { require(!service_.is_waiting(*this)); }

 private:
  StoreService& service_;
  RequestParser parser_{most_request};
  bool gone_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  Budget budget{most_bytes};
  StoreService service{budget, most_bytes};
  std::array<Guest, 3> guests{Guest{service}, Guest{service}, Guest{service}};
  while (!input.empty()) {
    // One byte says who speaks and how much, so that requests of one come in pieces between those of others.
    const unsigned turn = input.number();
    guests[turn % guests.size()].hear(input.take(1 + turn / guests.size() * 4));
    require(budget.used() <= most_bytes);
    require(service.stored_bytes() <= budget.used());
  }
  for (Guest& guest : guests) guest.leave();
  require(service.stored_bytes() == budget.used());
  return 0;
}
