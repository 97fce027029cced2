#include "rendezvous/tcp_service.h"

#include <utility>

#include "rendezvous/limits.h"

namespace tutti::rendezvous {

StoreService::Outcome StoreService::serve(Client& client, Request request, std::string& answer) {
  // One request at a time: the only thing to be said during a wait is that it shall end.
  if (is_waiting(client) && request.op != StoreOp::cancel_wait) return Outcome::refused;

  Message reply;
  Outcome outcome = Outcome::answered;
  switch (request.op) {
    case StoreOp::validate:
      if (static_cast<std::uint32_t>(request.number) != store_magic) return Outcome::refused;
      break;
    case StoreOp::get: {
      const std::string* value = table_.find(request.fields[0]);
      reply.text(value == nullptr ? std::string_view{} : *value);
      break;
    }
    case StoreOp::check:
      reply.byte(table_.has_all(request.fields) ? answer_ready : answer_not_ready);
      break;
    case StoreOp::wait:
      outcome = serve_wait(client, std::move(request.fields), reply);
      break;
    case StoreOp::key_count:
      reply.i64(static_cast<std::int64_t>(table_.size()));
      break;
    case StoreOp::multi_get:
      outcome = serve_multi_get(request, reply);
      break;
    case StoreOp::cancel_wait:
      forget(client);
      reply.byte(answer_wait_canceled);
      break;
    case StoreOp::ping:
      reply.u32(static_cast<std::uint32_t>(request.number));
      break;
    default:
      outcome = serve_change(request, reply);
  }
  answer += reply.bytes();
  return outcome;
}

StoreService::Outcome StoreService::serve_change(const Request& request, Message& answer) {
  const std::vector<std::string>& fields = request.fields;
  bool fine = true;
  switch (request.op) {
    case StoreOp::set:
      fine = set(fields[0], fields[1]);
      break;
    case StoreOp::append:
      fine = append(fields[0], fields[1]);
      break;
    case StoreOp::multi_set:
      for (std::size_t i = 0; fine && i < fields.size(); i += 2) fine = set(fields[i], fields[i + 1]);
      break;
    case StoreOp::compare_set:
      if (table_.matches(fields[0], fields[1])) {
        fine = set(fields[0], fields[2]);
        answer.text(fields[2]);
      } else {
        answer.text(table_.current_or(fields[0], fields[1]));
      }
      break;
    case StoreOp::add: {
      const auto sum = table_.sum(fields[0], request.number);
      fine = sum && set(fields[0], std::to_string(*sum));
      if (fine) answer.i64(*sum);
      break;
    }
    case StoreOp::erase:
      answer.i64(table_.erase(fields[0]) ? 1 : 0);
      make_room(0);
      break;
    default:
      fine = false;
  }
  return fine ? Outcome::answered : Outcome::refused;
}

StoreService::Outcome StoreService::serve_wait(Client& client, std::vector<std::string> keys, Message& answer) {
  Wait wait{std::move(keys)};
  if (advance(wait)) {
    answer.byte(answer_stop_waiting);
    return Outcome::answered;
  }
  std::size_t bytes = 2 * Table::bytes_of(wait.keys[wait.next], {});
  for (const std::string& key : wait.keys) bytes += sizeof(std::string) + key.size();
  if (!budget_.change(wait.held, bytes)) return Outcome::refused;
  lines_[wait.keys[wait.next]].insert(&client);
  waits_.emplace(&client, std::move(wait));
  return Outcome::waiting;
}

/// True when no key is missing.
bool StoreService::advance(Wait& wait) const {
  while (wait.next < wait.keys.size() && table_.find(wait.keys[wait.next]) != nullptr) ++wait.next;
  return wait.next == wait.keys.size();
}

StoreService::Outcome StoreService::serve_multi_get(const Request& request, Message& answer) {
  std::size_t bytes = 0;
  for (const std::string& key : request.fields) {
    const std::string* value = table_.find(key);
    bytes += sizeof(std::uint64_t) + (value == nullptr ? 0 : value->size());
    if (bytes > max_answer_bytes_) return Outcome::refused;
  }
  for (const std::string& key : request.fields) {
    const std::string* value = table_.find(key);
    answer.text(value == nullptr ? std::string_view{} : *value);
  }
  return Outcome::answered;
}

void StoreService::forget(Client& client) {
  const auto it = waits_.find(&client);
  if (it == waits_.end()) return;
  const auto line = lines_.find(it->second.keys[it->second.next]);
  line->second.erase(&client);
  if (line->second.empty()) lines_.erase(line);
  budget_.change(it->second.held, 0);
  waits_.erase(it);
}

/// Reserves what the table will need once it has grown by `bytes`.
bool StoreService::make_room(std::size_t bytes) { return budget_.change(table_held_, table_.bytes() + bytes); }

bool StoreService::set(std::string_view key, std::string_view value) {
  if (!make_room(Table::bytes_of(key, value))) return false;
  table_.set(key, value);
  make_room(0);
  announce(key);
  return true;
}

bool StoreService::append(std::string_view key, std::string_view value) {
  const std::string* current = table_.find(key);
  if (current != nullptr && current->size() + value.size() > max_value_bytes) return false;
  if (!make_room(Table::bytes_of(key, value))) return false;
  table_.append(key, value);
  make_room(0);
  announce(key);
  return true;
}

void StoreService::announce(std::string_view key) {
  const auto it = lines_.find(key);
  if (it == lines_.end()) return;
  const std::set<Client*> line = std::move(it->second);
  lines_.erase(it);
  std::vector<Client*> done;
  for (Client* client : line) {
    Wait& wait = waits_.at(client);
    if (!advance(wait)) {
      lines_[wait.keys[wait.next]].insert(client);
      continue;
    }
    budget_.change(wait.held, 0);
    waits_.erase(client);
    done.push_back(client);
  }
  for (Client* client : done) client->stop_waiting();
}

}  // namespace tutti::rendezvous
