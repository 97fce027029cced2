#include "tests/rendezvous/store_bench.h"

#include <cstdlib>

#include "rendezvous/tcp_server.h"

namespace tutti::testing {

using rendezvous::TcpStoreServer;

std::optional<rendezvous::Endpoint> foreign_server() {
  const char* text = std::getenv("FOREIGN_STORE");
  if (text == nullptr) return std::nullopt;
  return rendezvous::parse_endpoint(text, "FOREIGN_STORE");
}

void for_each_store(const std::function<void(const Bench&)>& body) {
  if (const auto server = foreign_server()) {
    static int count = 0;
    const std::string prefix = "test " + std::to_string(++count);
    return body({"foreign", [&] { return prefix_store(prefix, tcp_store(server->host, server->port, patience)); }});
  }
  {
    const auto memory = memory_store();
    body({"memory", [&] { return memory; }});
  }
  {
    const TempFolder folder;
    body({"file", [&] { return file_store(folder.file("store"), 0); }});
  }
  {
    const TcpStoreServer server{{"127.0.0.1", 0}};
    body({"tcp", [&] { return tcp_store(server.endpoint().host, server.endpoint().port, patience); }});
  }
  {
    const auto memory = memory_store();
    body({"prefix of memory", [&] { return prefix_store("job 7", memory); }});
  }
  {
    const TcpStoreServer server{{"127.0.0.1", 0}};
    body({"prefix of prefix of tcp", [&] {
            const auto tcp = tcp_store(server.endpoint().host, server.endpoint().port, patience);
            return prefix_store("a", prefix_store("b", tcp));
          }});
  }
}

}  // namespace tutti::testing
