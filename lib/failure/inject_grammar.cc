// TUTTI_INJECT and `tutti run --inject` as people write them:
//
//   kill:rank=2,op=5,step=3      stop:rank=1,op=2      drop:rank=0,op=7,step=last;delay:rank=3,ms=200
//   corrupt:rank=1,op=4          corrupt:rank=0,message=2          refuse:call=memfd,errno=EMFILE,nth=2

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "lib/base/suggest.h"
#include "lib/failure/inject.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};
template <class T>
Named(const char*, T) -> Named<T>;

constexpr std::array kind_names{
    Named{"kill", Fault::Kind::kill},       Named{"stop", Fault::Kind::stop},     Named{"exit", Fault::Kind::exit},
    Named{"throw", Fault::Kind::exception}, Named{"drop", Fault::Kind::drop},     Named{"delay", Fault::Kind::delay},
    Named{"corrupt", Fault::Kind::corrupt}, Named{"refuse", Fault::Kind::refuse},
};

constexpr std::array call_names{
    Named{"memfd", SystemCall::memfd},   Named{"fallocate", SystemCall::fallocate},
    Named{"mmap", SystemCall::mmap},     Named{"socket", SystemCall::socket},
    Named{"accept", SystemCall::accept}, Named{"process_vm_readv", SystemCall::process_vm_readv},
};
static_assert(call_names.size() == system_call_count);

constexpr std::array error_names{
    Named{"ENOMEM", ENOMEM},   Named{"EMFILE", EMFILE}, Named{"ENFILE", ENFILE}, Named{"ENOSPC", ENOSPC},
    Named{"ENOBUFS", ENOBUFS}, Named{"EPERM", EPERM},   Named{"EACCES", EACCES}, Named{"ENOSYS", ENOSYS},
};

/// Reads the words of one fault, and throws the errors about them.
class FaultReader {
 public:
  FaultReader(std::string_view text, std::string_view said_by) : text_(text), said_by_(said_by) {}

  [[noreturn]] void wrong(const std::string& why) const {
    throw Error{ErrorCode::invalid_argument, fmt::format("{}: {} in \"{}\"", said_by_, why, text_)};
  }

  template <class T, std::size_t n>
  T one_of(const std::array<Named<T>, n>& known, std::string_view word, std::string_view what) const {
    std::array<std::string_view, n> names;
    for (std::size_t i = 0; i < n; ++i) {
      if (known[i].name == word) return known[i].value;
      names[i] = known[i].name;
    }
    wrong(fmt::format("no {} \"{}\".{} Known are {}", what, word, did_you_mean(word, names), joined(names)));
  }

  template <class T>
  T number(std::string_view key, std::string_view word, T least) const {
    T value{};
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || stop != word.data() + word.size() || value < least)
      wrong(fmt::format("{}= takes a whole number from {}, not \"{}\",", key, least, word));
    return value;
  }

  static std::string joined(std::span<const std::string_view> words) {
    std::string text;
    for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string{word};
    return text;
  }

 private:
  std::string_view text_;
  std::string_view said_by_;
};

/// Takes the text up to the next `mark` from `text`.
std::string_view next_word(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::vector<std::string_view> keys_of(Fault::Kind kind) {
  if (kind == Fault::Kind::refuse) return {"rank", "call", "errno", "nth"};
  std::vector<std::string_view> keys{"rank", "op", "step", "group"};
  if (kind == Fault::Kind::delay) keys.push_back("ms");
  if (kind == Fault::Kind::corrupt) keys.push_back("message");
  return keys;
}

void set(Fault& fault, std::string_view key, std::string_view word, const FaultReader& read) {
  if (key == "rank") {
    fault.rank = read.number(key, word, 0);
  } else if (key == "op") {
    fault.operation = read.number<std::uint64_t>(key, word, 1);
  } else if (key == "step") {
    fault.step = word == "first" ? Fault::first_step
                 : word == "last"
                     ? Fault::last_step
                     : static_cast<std::int64_t>(read.number<std::uint32_t>("step=first, step=last or step", word, 0));
  } else if (key == "group") {
    fault.group = word == "world" ? 0 : read.number("group=world, or group", word, 1);
  } else if (key == "message") {
    fault.message = read.number<std::uint64_t>(key, word, 1);
  } else if (key == "ms") {
    fault.delay = std::chrono::milliseconds{read.number<std::uint32_t>(key, word, 1)};
  } else if (key == "call") {
    fault.call = read.one_of(call_names, word, "system call");
  } else if (key == "errno") {
    fault.error = read.one_of(error_names, word, "error");
  } else {
    fault.nth = read.number(key, word, 1U);
  }
}

Fault parse_fault(std::string_view text, const FaultReader& read) {
  Fault fault;
  fault.text = text;
  std::string_view rest = text;
  fault.kind = read.one_of(kind_names, next_word(rest, ':'), "fault");
  const std::vector<std::string_view> known = keys_of(fault.kind);
  std::vector<std::string_view> seen;
  while (!rest.empty()) {
    std::string_view word = next_word(rest, ',');
    const std::string_view key = next_word(word, '=');
    if (std::find(known.begin(), known.end(), key) == known.end())
      read.wrong(
          fmt::format("no key \"{}\".{} Known here are {}", key, did_you_mean(key, known), FaultReader::joined(known)));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) read.wrong(fmt::format("{}= is given twice", key));
    seen.push_back(key);
    set(fault, key, word, read);
  }
  if (fault.kind == Fault::Kind::delay && fault.delay.count() == 0) read.wrong("a delay needs ms=, its milliseconds,");
  if (fault.kind == Fault::Kind::refuse && (!fault.call || fault.error == 0))
    read.wrong("a refusal needs call= and errno=");
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text, int ranks, std::string_view said_by) {
  std::vector<Fault> faults;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view one = next_word(rest, ';');
    const FaultReader read{one, said_by};
    faults.push_back(parse_fault(one, read));
    if (faults.back().rank >= ranks)
      read.wrong(fmt::format("rank {} is not in this job, whose ranks are 0 to {},", faults.back().rank, ranks - 1));
  }
  return faults;
}

}  // namespace tutti::detail
