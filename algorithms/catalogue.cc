// The list of all algorithms as a table (its lines are in catalogue.inc), and the parser of their names.

#include "algorithms/catalogue.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "algorithms/domains.h"
#include "algorithms/families.h"
#include "lib/base/refuse.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

using enum Collective;

struct Traits {
  bool radix = false;
  bool domains = false;
  bool pipeline = false;
  bool slices = false;
  bool equal_parts = false;
  bool rank_order = false;
  bool mesh = false;
  bool row = false;
  bool shared_buffers = false;
};

constexpr Entry entry(Collective collective, std::string_view name, Builder build, Traits traits,
                      std::string_view idea) {
  return {.collective = collective,
          .name = name,
          .build = build,
          .has_radix = traits.radix,
          .has_domains = traits.domains,
          .has_pipeline = traits.pipeline,
          .has_slices = traits.slices,
          .equal_parts = traits.equal_parts,
          .rank_order = traits.rank_order,
          .mesh = traits.mesh,
          .in_row = traits.row,
          .shared_buffers = traits.shared_buffers,
          .idea = idea};
}

constexpr Traits plain{};
constexpr Traits pipelined{.pipeline = true};
constexpr Traits in_slices{.pipeline = true, .slices = true};
constexpr Traits in_slices_in_a_row{.pipeline = true, .slices = true, .row = true};
constexpr Traits with_radix{.radix = true};
constexpr Traits with_domains{.radix = true, .domains = true};
constexpr Traits with_radix_in_slices{.radix = true, .pipeline = true, .slices = true};
constexpr Traits in_slices_in_rank_order{.pipeline = true, .slices = true, .rank_order = true};
constexpr Traits in_rank_order{.rank_order = true};
constexpr Traits for_equal_parts{.equal_parts = true};
constexpr Traits mesh{.mesh = true};
constexpr Traits mesh_pipelined{.pipeline = true, .mesh = true};
constexpr Traits mesh_in_rank_order{.rank_order = true, .mesh = true};
constexpr Traits mesh_for_shared_buffers{.mesh = true, .shared_buffers = true};
constexpr Traits mesh_in_rank_order_for_shared_buffers{.rank_order = true, .mesh = true, .shared_buffers = true};

constexpr Entry entries[] = {
#define TUTTI_ALGORITHM(collective, name, traits, idea) entry(collective, #name, name##_##collective, traits, idea),
#include "algorithms/catalogue.inc"
#undef TUTTI_ALGORITHM
};

constexpr int most_radix = 1 << 20;
constexpr int most_pipeline = 1 << 12;
constexpr std::size_t most_size = (1 << 20) - 1;  // of messages, before its unit

/// Removes `mark` and the number after it from `name` and returns the number; `otherwise` if there is no mark.
int take_parameter(std::string_view& name, char mark, const char* meaning, int least, int most, int otherwise) {
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return otherwise;
  const std::string_view digits = name.substr(at + 1);
  int value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc{} || end != digits.data() + digits.size() || value < least || value > most)
    refuse("Algorithm \"" + std::string{name} + "\": the " + meaning + " after '" + mark + "' must be a number from " +
           std::to_string(least) + " to " + std::to_string(most) + ", not \"" + std::string{digits} + "\".");
  name = name.substr(0, at);
  return value;
}

/// Removes '/' and the size after it, "64K" or "1M", from `name` and returns the bytes; 0 if there is none.
std::size_t take_message(std::string_view& name) {
  const std::size_t at = name.find('/');
  if (at == std::string_view::npos) return 0;
  std::string_view digits = name.substr(at + 1);
  const std::size_t unit = digits.empty() ? std::string_view::npos : std::string_view{"KM"}.find(digits.back());
  if (unit != std::string_view::npos) digits.remove_suffix(1);
  std::size_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc{} || end != digits.data() + digits.size() || value == 0 || value > most_size)
    refuse("Algorithm \"" + std::string{name} + "\": the size of messages after '/' must be a number from 1 to " +
           std::to_string(most_size) + ", perhaps with K or M, such as 4096, 64K or 1M, not \"" +
           std::string{name.substr(at + 1)} + "\".");
  name = name.substr(0, at);
  return unit == std::string_view::npos ? value : value << 10 * (unit + 1);
}

/// "64K", or the plain number if it is not a multiple.
std::string message_text(std::size_t bytes) {
  if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
  return bytes % 1024 == 0 ? std::to_string(bytes >> 10) + "K" : std::to_string(bytes);
}

/// Removes ':' and domains such as "3+1" from `name` and returns them; none if a number follows, or nothing does.
std::vector<int> take_domains(std::string_view& name) {
  const std::size_t at = name.find(':');
  if (at == std::string_view::npos || name.find_first_of("+.-", at) == std::string_view::npos) return {};
  const std::string_view text = name.substr(at + 1);
  std::vector<int> domains = domains_in(text);
  if (domains.empty())
    refuse("Algorithm \"" + std::string{name} +
           "\": the domains after ':' must be sizes, as in 3+1, or lists of ranks, as in 0-1.4+2.3, with each rank "
           "once, not \"" +
           std::string{text} + "\".");
  name = name.substr(0, at);
  return domains;
}

[[noreturn]] void refuse_name(Collective collective, std::string_view name) {
  std::vector<std::string_view> known;
  std::string list;
  for (const Entry& entry : catalogue(collective)) {
    known.push_back(entry.name);
    list += (list.empty() ? "" : ", ") + std::string{entry.name};
  }
  refuse("There is no algorithm \"" + std::string{name} + "\" for " + name_of(collective) + "." +
         did_you_mean(name, known) + " There are: " + list + ".");
}

}  // namespace

Choice settled(Choice choice, int ranks, std::size_t bytes) {
  if (choice.message == 0) return choice;
  const std::size_t whole = choice.entry->has_slices ? bytes : bytes / static_cast<std::size_t>(ranks);
  while (choice.pipeline < most_pipeline && whole / static_cast<std::size_t>(choice.pipeline) > choice.message)
    choice.pipeline *= 2;
  choice.message = 0;
  return choice;
}

Shape shape_of(const Choice& choice, int rank, int ranks, int root) {
  if (!suits(choice, ranks))
    refuse("Algorithm \"" + to_string(choice) + "\" has domains of " + std::to_string(choice.domains.size()) +
           " ranks, and there are " + std::to_string(ranks) + ".");
  return {.rank = rank,
          .ranks = ranks,
          .root = root,
          .pipeline = choice.pipeline,
          .radix = choice.radix,
          .domains = choice.domains};
}

/// Each piece that a pipeline has more adds as many steps as the second one does.
std::size_t count_steps(const Entry& entry, Shape shape) {
  const auto steps_with = [&](int pipeline) {
    shape.pipeline = pipeline;
    return entry.build(shape).steps.size();
  };
  const int pipeline = shape.pipeline;
  if (pipeline <= 2) return steps_with(pipeline);
  const std::size_t with_one = steps_with(1);
  return with_one + static_cast<std::size_t>(pipeline - 1) * (steps_with(2) - with_one);
}

bool suits(const Choice& choice, int ranks) {
  return choice.domains.empty() || std::cmp_equal(choice.domains.size(), ranks);
}

std::span<const Entry> catalogue() { return entries; }

std::span<const Entry> catalogue(Collective collective) {
  const auto is_other = [&](const Entry& entry) { return entry.collective != collective; };
  const Entry* first = std::find_if_not(std::begin(entries), std::end(entries), is_other);
  return {first, std::find_if(first, std::end(entries), is_other)};
}

const Entry* find_for_shared_buffers(Collective collective) {
  for (const Entry& entry : catalogue(collective))
    if (entry.shared_buffers) return &entry;
  return nullptr;
}

Choice find(Collective collective, std::string_view name) {
  std::string_view rest = name;
  Choice choice;
  choice.message = take_message(rest);
  choice.pipeline_given = choice.message > 0 || rest.find('*') != std::string_view::npos;
  choice.pipeline = take_parameter(rest, '*', "pipeline", 1, most_pipeline, choice.pipeline);
  choice.domains = take_domains(rest);
  const bool radix_given = rest.find(':') != std::string_view::npos;
  choice.radix = take_parameter(rest, ':', "radix", 2, most_radix, choice.radix);

  for (const Entry& entry : catalogue(collective))
    if (entry.name == rest) choice.entry = &entry;
  if (choice.entry == nullptr) refuse_name(collective, rest);
  if (radix_given && !choice.entry->has_radix)
    refuse("Algorithm \"" + std::string{name} + "\": " + std::string{rest} + " of " + name_of(collective) +
           " has no radix; leave out ':" + std::to_string(choice.radix) + "'.");
  if (!choice.domains.empty() && !choice.entry->has_domains)
    refuse("Algorithm \"" + std::string{name} + "\": " + std::string{rest} + " of " + name_of(collective) +
           " knows no domains; leave out ':" + domains_text(choice.domains) + "'.");
  const std::string pipeline =
      choice.message > 0 ? "/" + message_text(choice.message) : "*" + std::to_string(choice.pipeline);
  if (choice.pipeline_given && !choice.entry->has_pipeline)
    refuse("Algorithm \"" + std::string{name} + "\": " + std::string{rest} + " of " + name_of(collective) +
           " gains nothing from a pipeline; leave out '" + pipeline + "'.");
  if (choice.message > 0 && choice.pipeline != 1)
    refuse("Algorithm \"" + std::string{name} + "\": give either a pipeline (*) or the size of its messages (/).");
  return choice;
}

std::string to_string(const Choice& choice) {
  std::string text{choice.entry->name};
  if (choice.entry->has_radix)
    text += ":" + (choice.domains.empty() ? std::to_string(choice.radix) : domains_text(choice.domains));
  if (choice.pipeline != 1) text += "*" + std::to_string(choice.pipeline);
  if (choice.message > 0) text += "/" + message_text(choice.message);
  return text;
}

Collective find_collective(std::string_view name) {
  std::vector<std::string_view> known;
  std::string list;
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (name == name_of(collective)) return collective;
  }
  for (int i = 0; i < collective_count; ++i) {
    known.push_back(name_of(static_cast<Collective>(i)));
    list += (list.empty() ? "" : ", ") + std::string{known.back()};
  }
  refuse("There is no collective \"" + std::string{name} + "\"." + did_you_mean(name, known) + " There are: " + list +
         ".");
}

}  // namespace tutti::algorithms
