// Serves a TCP store, and has a client for people, who can list, read and write keys.

#include "cli/store/store.h"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/inherited_signals.h"
#include "cli/base/output.h"
#include "cli/base/process_limits.h"
#include "lib/base/environment.h"
#include "lib/security/job_secret.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::cli {
namespace {

constexpr const char* store_examples =
    "Examples:\n"
    "  tutti store --port 29500                 serve; the ranks get TUTTI_RDZV=store://127.0.0.1:29500\n"
    "  tutti store --host n0 --secret-file FILE serve other hosts; the ranks get TUTTI_SECRET_FILE=FILE, too\n"
    "  tutti store set colour green             set a value that other ranks or PyTorch's TCPStore see\n"
    "  tutti store wait ready --timeout 60      until another client sets the key\n";

struct StoreWords {
  std::string host = "127.0.0.1";
  std::string port = "29500";
  std::string rendezvous = variable("TUTTI_RDZV").value_or("127.0.0.1:29500");
  double timeout = 30;
  std::string secret_file;
  bool insecure = false;
  bool tls = false;
  std::string key;
  std::string value;
  std::int64_t number = 1;
  std::vector<std::string> keys;
};

/// Blocks the signals that end the server before its thread starts, so that the thread handles none of them.
class EndSignals {
 public:
  EndSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGTERM);
    if (!inherited_signals().ignores(SIGINT)) ::sigaddset(&set_, SIGINT);  // a background job of a shell ignores it
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void wait() const {
    int signal = 0;
    ::sigwait(&set_, &signal);
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

void serve(const StoreWords& words) {
  const rendezvous::Endpoint endpoint{words.host, rendezvous::parse_port(words.port, "--port")};
  const EndSignals signals;
  raise_descriptor_limit();  // each client takes a descriptor
  const Secret secret = job_secret(words.secret_file);
  if (words.insecure && !secret.empty())
    throw Error{
        ErrorCode::invalid_argument,
        "store: --insecure means no secret, but --secret-file, TUTTI_SECRET or TUTTI_SECRET_FILE gives one; leave "
        "out one"};
  const rendezvous::AccessPolicy access_policy{secret, words.insecure || insecure_allowed(),
                                               job_tls_proxies(secret, words.tls)};
  const rendezvous::TcpStoreServer server{
      endpoint, {}, std::chrono::steady_clock::now() + std::chrono::seconds{2}, access_policy};
  fmt::print("listening on {}\n", to_string(server.endpoint()));
  flush_output();
  if (!server.is_on_loopback() && !server.has_secret())
    say_error(fmt::format("tutti store: everybody who can reach {} can read and change what is stored\n",
                          to_string(server.endpoint())));
  signals.wait();
}

std::shared_ptr<Store> connect(const StoreWords& words) {
  std::string_view text = words.rendezvous;
  for (const std::string_view scheme : {"tcp://", "store://"})
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  if (text.find("://") != std::string_view::npos)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{} is not a TCP store; give the address of one: --rdzv host:port", words.rendezvous)};
  if (!(words.timeout > 0 && words.timeout < 1e9))
    throw Error{ErrorCode::invalid_argument,
                fmt::format("--timeout takes seconds above 0, not {:g} (tutti store --help)", words.timeout)};
  const auto timeout = std::chrono::milliseconds{static_cast<std::int64_t>(words.timeout * 1000)};
  const Secret secret = job_secret(words.secret_file);
  return rendezvous::connect_tcp_store(rendezvous::parse_endpoint(text, "--rdzv"), timeout,
                                       {secret, insecure_allowed(), job_tls_proxies(secret, words.tls)});
}

/// `call` on the store. A store gives the same error for keys that do not come in time and for a server that is lost.
template <class Call>
auto wait_in(StoreWords& words, Call call) {
  const auto store = connect(words);
  const auto begin = std::chrono::steady_clock::now();
  try {
    return call(*store);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::rendezvous && std::chrono::steady_clock::now() - begin >= store->timeout())
      throw Error{ErrorCode::timeout, error.what()};
    throw;
  }
}

void add_secret(CLI::App& command, StoreWords& words) {
  command.add_option("--secret-file", words.secret_file,
                     "File with the job's secret, readable by its user only; else TUTTI_SECRET or TUTTI_SECRET_FILE");
  command.add_flag("--tls", words.tls, "Encrypt connections (also TUTTI_TLS=1); needs a secret");
}

CLI::App* client_command(CLI::App& app, StoreWords& words, const char* name, const char* meaning) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->add_option("--rdzv", words.rendezvous, "host:port of the store; TUTTI_RDZV, if set")->capture_default_str();
  add_secret(*command, words);
  command->add_option("--timeout", words.timeout, "Seconds to wait")->capture_default_str();
  return command;
}

/// Declares the subcommands; `action` is set to that of the chosen one.
void declare(CLI::App& app, StoreWords& words, std::function<int()>& action) {
  app.add_option("--host", words.host, "Address to listen on, and on no other")->capture_default_str();
  app.add_option("--port", words.port, "Port; 0: a free one")->capture_default_str();
  add_secret(app, words);
  app.add_flag("--insecure", words.insecure, "Serve other hosts without a secret (also TUTTI_INSECURE=1)");
  app.require_subcommand(0, 1);
  app.footer(store_examples);

  const auto on = [&action](CLI::App* command, std::function<int()> body) {
    command->callback([&action, body = std::move(body)] { action = body; });
  };
  CLI::App* get = client_command(app, words, "get", "Wait for a key and print its value");
  get->add_option("KEY", words.key)->required();
  on(get, [&] {
    fmt::print("{}\n", wait_in(words, [&](Store& store) { return store.get(words.key); }));
    return exit_success;
  });
  CLI::App* set = client_command(app, words, "set", "Set a key");
  set->add_option("KEY", words.key)->required();
  set->add_option("VALUE", words.value)->required();
  on(set, [&] {
    const auto store = connect(words);
    store->set(words.key, words.value);
    store->key_count();  // a set is not answered; the answer to this shows that it has arrived
    return exit_success;
  });
  CLI::App* add = client_command(app, words, "add", "Add to a number and print the sum");
  add->add_option("KEY", words.key)->required();
  add->add_option("N", words.number)->required();
  on(add, [&] {
    fmt::print("{}\n", connect(words)->add(words.key, words.number));
    return exit_success;
  });
  CLI::App* wait = client_command(app, words, "wait", "Wait until all keys exist");
  wait->add_option("KEY", words.keys)->required();
  on(wait, [&] {
    wait_in(words, [&](Store& store) { store.wait(words.keys); });
    return exit_success;
  });
  on(client_command(app, words, "keys", "Print the number of keys"), [&] {
    fmt::print("{}\n", connect(words)->key_count());
    return exit_success;
  });
  CLI::App* erase = client_command(app, words, "delete", "Delete a key; fails if there was none");
  erase->add_option("KEY", words.key)->required();
  on(erase, [&] {
    if (connect(words)->erase(words.key)) return exit_success;
    say_error(fmt::format("tutti store: there is no key \"{}\"\n", words.key));
    return exit_library;
  });
}

}  // namespace

int store_main(int argc, char** argv) {
  StoreWords words;
  std::function<int()> action = [&] {
    serve(words);
    return exit_success;
  };
  CLI::App app{"Serves a TCP store, or uses one.", "tutti store"};
  declare(app, words, action);
  if (!parse_command_line(app, argc, argv, "store")) return exit_success;
  try {
    return action();
  } catch (const OutputError&) {
    throw;
  } catch (const Error& error) {
    say_error(fmt::format("tutti store: {}\n", error.what()));
    return exit_code_of(error.code());
  }
}

}  // namespace tutti::cli
