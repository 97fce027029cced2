// A store in a file: a log of changes to which each user appends under a lock, and which each replays from where it
// stopped.
//
// Users sign in and out in the same log. So the last one knows that it may remove the file, and a file that an earlier
// run left behind can be told from a rendezvous in progress:
//   a user has signed in but not out, and its process is gone
//       That run was killed. This is an error at once; the last of its users, if any is left, removes the file.
//   all expected users have signed in
//       They may be about to leave (two programs one after the other with one name). Wait, then report an error.
//   a user has signed out that had not used the store, or had carried out its leave actions (leave_actions.h)
//       It ended by an error. Its place is free for a successor.
// Waiting polls every few milliseconds: there is no notification that works on network file systems.

#include "rendezvous/file_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "lib/base/clocks.h"
#include "lib/security/job_secret.h"
#include "rendezvous/file_log.h"
#include "rendezvous/file_visitors.h"
#include "rendezvous/kv_table.h"
#include "rendezvous/leave_actions.h"
#include "rendezvous/limits.h"
#include "rendezvous/patience.h"
#include "rendezvous/process.h"
#include "rendezvous/store_errors.h"

namespace tutti {
namespace rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using LockKind = FileLog::Lock::Kind;

class FileStore final : public Store {
 public:
  FileStore(const std::string& path, int users, Milliseconds timeout, bool own_folder, FileGuard guard)
      : path_(path), users_(users), own_folder_(own_folder), guard_(guard) {
    Store::set_timeout(timeout);
    sign_in(deadline_after(timeout));
    if (own_folder_ && number_ == 0) remove_left_folders(folder());
  }

  ~FileStore() override {
    // After fork() the child's copy is not the user that signed in.
    if (users_ == 0 || !mark_.is_here()) return;
    try {
      sign_out();
    } catch (const Error&) {
      // Nobody is left to be told. The next run recognises a file that stays.
    }
  }

  void set(std::string_view key, std::string_view value) override {
    check_value(key, value);
    change([&] { write(RecordKind::set, key, value); });
    if (LeaveActions::prefix_of(key)) withdrawn_ = value.empty();
  }

  std::string get(std::string_view key) override {
    const std::string name{key};
    return multi_get({&name, 1}).front();
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    check_key(key);
    return change([&] {
      const auto sum = table_.sum(key, delta);
      if (!sum) throw not_addable(where(), key);
      write(RecordKind::set, key, std::to_string(*sum));
      return *sum;
    });
  }

  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    check_value(key, desired);
    return change([&] {
      if (!table_.matches(key, expected)) return table_.current_or(key, expected);
      write(RecordKind::set, key, desired);
      return std::string{desired};
    });
  }

  void wait(std::span<const std::string> keys) override { wait_for(keys, timeout()); }

  void wait_for(std::span<const std::string> keys, Milliseconds timeout) override {
    await(keys, timeout, &Table::all_exist);
  }

  bool check(std::span<const std::string> keys) override {
    refresh();
    return table_.all_exist(keys);
  }

  bool erase(std::string_view key) override {
    return change([&] {
      if (table_.find(key) == nullptr) return false;
      write(RecordKind::erase, key, {});
      return true;
    });
  }

  std::int64_t key_count() override {
    refresh();
    return static_cast<std::int64_t>(table_.size());
  }

  void append(std::string_view key, std::string_view value) override {
    check_value(key, value);
    change([&] { write(RecordKind::append, key, value); });
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    await(keys, timeout(), &Table::has_all);
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(*table_.find(key));
    return values;
  }

  void multi_set(std::span<const KeyValue> pairs) override {
    for (const auto& [key, value] : pairs) check_value(key, value);
    change([&] {
      for (const auto& [key, value] : pairs) write(RecordKind::set, key, value);
    });
  }

  void queue_push(std::string_view name, std::string_view value) override {
    check_value(name, value);
    change([&] { write(RecordKind::push, name, value); });
  }

  std::optional<std::string> queue_try_pop(std::string_view name) override {
    check_key(name);
    return change([&]() -> std::optional<std::string> {
      if (table_.queue_length(name) == 0) return std::nullopt;
      log_->append({RecordKind::pop, std::string{name}, {}});
      return table_.pop(name);
    });
  }

  std::int64_t queue_length(std::string_view name) override {
    refresh();
    return static_cast<std::int64_t>(table_.queue_length(name));
  }

  std::vector<std::string> list_keys() override {
    refresh();
    return table_.keys();
  }

 private:
  std::string where() const { return "rendezvous file " + path_; }
  FileLog::Deadline deadline() const { return deadline_after(timeout()); }

  void refresh() {
    require_own_process(mark_, where());
    used_ = true;
    const FileLog::Lock lock{*log_, LockKind::shared, deadline()};
    replay();
  }

  using Are = bool (Table::*)(std::span<const std::string>) const;

  void await(std::span<const std::string> keys, Milliseconds timeout, Are are_there) {
    constexpr Milliseconds between_looks{500};
    auto next_look = Clock::now() + between_looks;
    for (Patience patience{deadline_after(timeout)};; patience.pause()) {
      refresh();
      if ((table_.*are_there)(keys)) return;
      if (patience.is_over()) throw waited_in_vain(where(), keys, timeout);
      if (Clock::now() < next_look) continue;
      if (users_ > visitors_.seated) require_none_was_killed();  // or nobody else is let in
      next_look = Clock::now() + between_looks;
    }
  }

  void require_none_was_killed() const {
    for (const auto& [number, visitor] : visitors_.present)
      if (has_ended(visitor)) throw stale(visitor);
  }

  template <class Body>
  std::invoke_result_t<Body> change(Body body) {
    require_own_process(mark_, where());
    used_ = true;
    const FileLog::Lock lock{*log_, LockKind::exclusive, deadline()};
    replay();
    return body();
  }

  void replay() {
    for (const Record& record : log_->read_new()) apply(record);
  }

  void write(RecordKind kind, std::string_view key, std::string_view value) {
    const Record record{kind, std::string{key}, std::string{value}};
    log_->append(record);
    apply(record);
  }

  void apply(const Record& record) {
    switch (record.kind) {
      case RecordKind::set:
        return table_.set(record.key, record.value);
      case RecordKind::append:
        return table_.append(record.key, record.value);
      case RecordKind::erase:
        return static_cast<void>(table_.erase(record.key));
      case RecordKind::push:
        return table_.push(record.key, record.value);
      case RecordKind::pop:
        return static_cast<void>(table_.pop(record.key));
      case RecordKind::join:
      case RecordKind::leave:
        return visitors_.note(record);
    }
  }

  void sign_in(Clock::time_point deadline) {
    for (Patience patience{deadline}; !try_sign_in(deadline); patience.pause())
      if (patience.is_over()) throw full();
  }

  /// False if the file has just been removed, or all its users have already come.
  bool try_sign_in(Clock::time_point deadline) {
    if (own_folder_) make_folder();
    log_.reset();
    table_ = {};
    visitors_ = {};
    if (!open_log()) return false;
    const FileLog::Lock lock{*log_, LockKind::exclusive, deadline};
    if (!log_->is_current()) return false;
    replay();
    if (users_ == 0) return true;
    require_none_was_killed();
    if (visitors_.arrived > 0 && visitors_.expected != users_)
      throw Error{ErrorCode::rendezvous, fmt::format("{} was opened for {} users, here for {}: the ranks were started "
                                                     "with different sizes, or two jobs use one file.",
                                                     where(), visitors_.expected, users_)};
    if (visitors_.seated >= users_) return false;
    number_ = visitors_.arrived;
    write(RecordKind::join, std::to_string(users_), encode(this_process()));
    return true;
  }

  bool open_log() {
    try {
      log_.emplace(path_);
      if (guard_ == FileGuard::user) log_->require_private();
      return true;
    } catch (const Error&) {
      // The last user of an earlier rendezvous may remove the folder between our mkdir and our opening of the file.
      if (own_folder_ && ::access(folder().c_str(), F_OK) != 0) return false;
      throw;
    }
  }

  void sign_out() {
    const FileLog::Lock lock{*log_, LockKind::exclusive, Clock::now() + std::chrono::seconds{2},
                             FileLog::Lock::Asks::nobody};
    replay();
    write(RecordKind::leave, std::to_string(number_), withdrawn_ || !used_ ? place_given_back : "");
    // A user that was killed never signs out. The last one left removes the file anyway, unless another user is still
    // to come, which shall find out that this rendezvous is over.
    if (visitors_.all_came)
      std::erase_if(visitors_.present, [](const auto& visitor) { return has_ended(visitor.second); });
    if (!visitors_.present.empty()) return;
    log_->remove();
    if (own_folder_) ::rmdir(folder().c_str());
  }

  std::string folder() const { return path_.substr(0, path_.rfind('/')); }

  void make_folder() const {
    if (::mkdir(folder().c_str(), 0700) != 0 && errno != EEXIST)
      throw Error{ErrorCode::rendezvous, fmt::format("cannot make the folder {} for ranks on this host to meet in: {}. "
                                                     "Set TUTTI_RDZV=tcp://host:port instead.",
                                                     folder(), std::strerror(errno))};
    struct stat status {};
    if (::lstat(folder().c_str(), &status) != 0) return;  // just removed: opening the file will fail and say so
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
      throw Error{ErrorCode::rendezvous,
                  fmt::format("{} exists but is not a folder that only this user can enter; another user "
                              "made it. Set TUTTI_RDZV=tcp://host:port instead.",
                              folder())};
  }

  Error stale(const Process& visitor) const {
    return {ErrorCode::rendezvous,
            fmt::format("{} is stale: {}, one of its users, ended without closing it, so it belongs to a run that was "
                        "killed. Remove it (rm {}) and start again.",
                        where(), describe(visitor), path_)};
  }

  Error full() const {
    std::string who;
    for (const auto& [number, visitor] : visitors_.present) who += (who.empty() ? "" : ", ") + describe(visitor);
    return {ErrorCode::rendezvous,
            fmt::format(
                "{} already has its {} users ({}), and they did not leave within {}. Either it is stale, left by an "
                "earlier run on another host: remove it (rm {}); or more ranks were started than the size says; "
                "or another job uses the file: name another one.",
                where(), visitors_.arrived, who.empty() ? "none present" : who, in_seconds(timeout()), path_)};
  }

  std::string path_;
  int users_;
  bool own_folder_;
  FileGuard guard_;
  const ForkMark mark_;
  int number_ = 0;
  bool used_ = false;
  bool withdrawn_ = false;  // it has carried out its leave actions
  std::optional<FileLog> log_;
  Table table_;
  Visitors visitors_;
};

}  // namespace

std::shared_ptr<Store> open_file_store(const std::string& path, int users, Store::Milliseconds timeout, bool own_folder,
                                       FileGuard guard) {
  if (path.empty() || users < 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("file_store(\"{}\", {}): needs a path and a number of users from 0.", path, users)};
  return std::make_shared<FileStore>(path, users, timeout, own_folder, guard);
}

}  // namespace rendezvous

std::shared_ptr<Store> tutti::file_store(const std::string& path, int users) {
  using rendezvous::FileGuard;
  return rendezvous::open_file_store(path, users, Store::Milliseconds{300'000}, false,
                                     job_secret({}).empty() ? FileGuard::user : FileGuard::secret);
}

}  // namespace tutti
