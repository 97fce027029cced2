// Addresses, and what ranks publish of themselves: from people, launchers, and a store that others may write to.

#include "lib/base/net/address.h"
#include "lib/startup/rank_info.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/process.h"
#include "rendezvous/rendezvous_url.h"
#include "tests/fuzz/input.h"
#include "transport/shm/address.h"

using namespace tutti;
using namespace tutti::fuzz;

namespace {

void try_endpoint(const std::string& text) {
  const rendezvous::Endpoint endpoint = rendezvous::parse_endpoint(text, "the fuzzer");
  require(rendezvous::parse_endpoint(to_string(endpoint), "the fuzzer") == endpoint);
}

void try_rendezvous_url(const std::string& text) {
  const rendezvous::Lookup lookup = [](const std::string& name) -> std::optional<std::string> {
    if (name == "MASTER_ADDR") return "n0";
    if (name == "MASTER_PORT") return "29500";
    return std::nullopt;
  };
  const rendezvous::Environment environment{lookup};
  const rendezvous::RendezvousUrl meeting = rendezvous::parse_rendezvous_url(text, "the fuzzer", environment);
  require(meeting.url.starts_with("tcp://") || meeting.url.starts_with("file:///"));
}

template <class Published>
void try_published(const std::string& text) {
  const std::string again = Published::decode(text, 3).encode();
  require(Published::decode(again, 3).encode() == again);
}

void try_address(const std::string& text) {
  const auto address = net::parse_address(text);
  if (address && address->is_unix()) require(address->text() == text);
}

void try_shm_address(const std::string& text) {
  const auto address = transport::ShmAddress::parse(text);
  if (address) require(transport::ShmAddress::parse(address->encode()).has_value());
}

void try_process(const std::string& text) {
  const auto process = rendezvous::decode_process(text);
  if (process) require(rendezvous::decode_process(rendezvous::encode(*process)).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int kind = input.number() % 8;
  const std::string text{input.rest()};
  may_refuse([&] {
    if (kind == 0) try_endpoint(text);
    if (kind == 1) rendezvous::parse_port(text, "the fuzzer");
    if (kind == 2) try_rendezvous_url(text);
    if (kind == 3) try_address(text);
    if (kind == 4) try_shm_address(text);
    if (kind == 5) try_process(text);
    if (kind == 6) try_published<detail::RankInfo>(text);
    if (kind == 7) try_published<detail::RankAccess>(text);
  });
  return 0;
}
