#include "rendezvous/tcp_service.h"

#include <algorithm>
#include <utility>

#include "rendezvous/leave_actions.h"
#include "rendezvous/limits.h"

namespace tutti::rendezvous {

StoreService::Outcome StoreService::serve(Client& client, Request request, std::string& answer) {
  // One request at a time: during a wait a client may only cancel it.
  if (is_waiting(client) && request.op != StoreOp::cancel_wait) return Outcome::refused;

  StoreMessage reply;
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
      reply.byte(table_.all_exist(request.fields) ? answer_ready : answer_not_ready);
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
      end_wait(client);
      reply.byte(answer_wait_canceled);
      break;
    case StoreOp::ping:
      reply.u32(static_cast<std::uint32_t>(request.number));
      break;
    case StoreOp::queue_push:
    case StoreOp::queue_pop:
    case StoreOp::queue_len:
      outcome = serve_queue(request, reply);
      break;
    case StoreOp::list_keys:
      outcome = serve_list(reply);
      break;
    case StoreOp::barrier:
      outcome = serve_barrier(client, request, reply);
      break;
    default:
      outcome = request.op == StoreOp::set && LeaveActions::prefix_of(request.fields[0])
                    ? keep_will(client, request.fields[0], std::move(request.fields[1]))
                    : serve_change(request, reply);
  }
  answer += reply.bytes();
  return outcome;
}

StoreService::Outcome StoreService::serve_change(const Request& request, StoreMessage& answer) {
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

StoreService::Outcome StoreService::serve_queue(const Request& request, StoreMessage& answer) {
  const std::string& name = request.fields[0];
  const auto length = static_cast<std::int64_t>(table_.queue_length(name));
  if (request.op == StoreOp::queue_push) {
    if (!make_room(Table::bytes_of(name, request.fields[1]))) return Outcome::refused;
    table_.push(name, request.fields[1]);
    announce(name, 1);
  } else {
    answer.i64(length);
    if (request.op == StoreOp::queue_pop && length > 0) answer.text(table_.pop(name).value());
  }
  make_room(0);
  return Outcome::answered;
}

StoreService::Outcome StoreService::serve_barrier(Client& client, const Request& request, StoreMessage& answer) {
  const std::string& key = request.fields[0];
  const auto count = table_.sum(key, 1);
  if (!count || !set(key, std::to_string(*count))) return Outcome::refused;
  if (*count < request.number) return await(client, {.keys = {key}, .barrier = true});
  answer.byte(answer_stop_waiting);
  const auto node = barriers_.extract(key);
  if (node) release({node.mapped().begin(), node.mapped().end()});
  return Outcome::answered;
}

StoreService::Outcome StoreService::serve_wait(Client& client, std::vector<std::string> keys, StoreMessage& answer) {
  Wait wait{std::move(keys)};
  if (!advance(wait)) return await(client, std::move(wait));
  answer.byte(answer_stop_waiting);
  return Outcome::answered;
}

StoreService::Outcome StoreService::await(Client& client, Wait wait) {
  std::size_t bytes = 2 * Table::bytes_of(wait.keys[wait.next], {});
  for (const std::string& key : wait.keys) bytes += sizeof(std::string) + key.size();
  if (!budget_.change(wait.held, bytes)) return Outcome::refused;
  line_of(wait).insert(&client);
  waits_.emplace(&client, std::move(wait));
  return Outcome::waiting;
}

/// True when no key is missing.
bool StoreService::advance(Wait& wait) const {
  while (wait.next < wait.keys.size() && table_.exists(wait.keys[wait.next])) ++wait.next;
  return wait.next == wait.keys.size();
}

StoreService::Outcome StoreService::serve_multi_get(const Request& request, StoreMessage& answer) {
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

StoreService::Outcome StoreService::serve_list(StoreMessage& answer) const {
  const std::vector<std::string> keys = table_.keys();
  std::size_t bytes = 0;
  for (const std::string& key : keys) bytes += sizeof(std::uint64_t) + key.size();
  if (bytes > max_answer_bytes_) {
    answer.i64(-static_cast<std::int64_t>(bytes));  // PyTorch's client throws at that, and goes on as well
    return Outcome::answered;
  }
  answer.i64(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) answer.text(key);
  return Outcome::answered;
}

void StoreService::end_wait(Client& client) {
  const auto it = waits_.find(&client);
  if (it == waits_.end()) return;
  auto& lines = it->second.barrier ? barriers_ : lines_;
  const auto line = lines.find(it->second.keys[it->second.next]);
  line->second.erase(&client);
  if (line->second.empty()) lines.erase(line);
  budget_.change(it->second.held, 0);
  waits_.erase(it);
}

StoreService::Outcome StoreService::keep_will(Client& client, const std::string& key, std::string text) {
  if (text.empty()) {
    if (auto node = wills_[&client].extract(key)) carry_out(key, node.mapped());
    return Outcome::answered;
  }
  if (!LeaveActions::decode(text)) return Outcome::refused;
  auto& wills = wills_[&client];
  const auto [place, is_new] = wills.try_emplace(key);
  if (!budget_.change(place->second.held, Table::bytes_of(key, text))) {
    if (is_new) wills.erase(place);  // there is nothing to carry out under this key
    return Outcome::refused;
  }
  place->second.text = std::move(text);
  return Outcome::answered;
}

void StoreService::leave(Client& client) {
  end_wait(client);
  const auto found = wills_.find(&client);
  if (found == wills_.end()) return;
  auto actions = std::move(found->second);
  wills_.erase(found);
  for (auto& [key, kept] : actions) carry_out(key, kept);
}

void StoreService::carry_out(const std::string& key, Kept& kept) {
  budget_.change(kept.held, 0);
  const auto actions = LeaveActions::decode(kept.text);
  if (!actions) return;
  const std::string prefix = LeaveActions::prefix_of(key).value_or("");
  const std::string* holder = table_.find(prefix + actions->place());
  if (holder == nullptr || *holder != actions->holder()) return;
  for (const auto& [name, value] : actions->changes()) {
    if (value) {
      set(prefix + name, *value);
    } else {
      table_.erase(prefix + name);
      make_room(0);
    }
  }
}

/// Reserves the memory that the table needs after it has grown by `bytes`.
bool StoreService::make_room(std::size_t bytes) { return budget_.change(table_held_, stored_bytes() + bytes); }

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

/// Ends the waits that waited only for `key`, at most `most` of them.
void StoreService::announce(std::string_view key, std::size_t most) {
  const auto it = lines_.find(key);
  if (it == lines_.end()) return;
  const std::set<Client*> line = std::move(it->second);
  lines_.erase(it);
  std::vector<Client*> done;
  for (Client* client : line) {
    Wait& wait = waits_.at(client);
    if (done.size() < most && advance(wait)) {
      done.push_back(client);
    } else {
      line_of(wait).insert(client);
    }
  }
  release(done);
}

void StoreService::release(const std::vector<Client*>& done) {
  for (Client* client : done) {
    const auto it = waits_.find(client);
    budget_.change(it->second.held, 0);
    waits_.erase(it);
  }
  for (Client* client : done) client->stop_waiting();
}

}  // namespace tutti::rendezvous
