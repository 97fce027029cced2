// One wording for errors in the command line, for all subcommands.

#include "cli/base/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/base/usage_error.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

/// The innermost subcommand that was given, such as "get" of "store"; `who` gets its full name.
const CLI::App& innermost(const CLI::App& app, std::string& who) {
  const std::vector<const CLI::App*> given = app.get_subcommands([](const CLI::App* one) { return one->parsed(); });
  if (given.empty()) return app;
  who += " " + given.back()->get_name();
  return innermost(*given.back(), who);
}

void take_extras(CLI::App& app) {
  app.allow_extras();
  for (CLI::App* const one : app.get_subcommands([](const CLI::App*) { return true; })) take_extras(*one);
}

/// Reports an option or a word that CLI11 did not know: a typing error, or a word too many.
void refuse_extras(const CLI::App& app, std::string who) {
  std::vector<std::string> extras = app.remaining(true);
  std::erase(extras, "--");  // it ends the options, but CLI11 reports it as one
  if (extras.empty()) return;
  const CLI::App& command = innermost(app, who);
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with("-"); });
  if (option == extras.end()) wrong(who, fmt::format("\"{}\" is one word too many", extras[0]));
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options())
    for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
  const std::vector<std::string_view> views{names.begin(), names.end()};
  wrong(who, fmt::format("no option \"{}\".{}", name, did_you_mean(name, views)));
}

std::string what_it_takes(const CLI::Option* option) {
  const std::string type = option == nullptr ? "" : option->get_type_name();
  if (type.starts_with("FLOAT")) return "a number";
  if (type.starts_with("TEXT")) return "a word";
  return "a whole number";
}

/// The names by which these words give the option: "-n", "--ranks".
std::vector<std::string> spellings_of(const CLI::Option* option, const std::vector<std::string>& words) {
  std::vector<std::string> found;
  if (option == nullptr) return found;
  for (const std::string& word : words) {
    if (!word.starts_with("-")) continue;
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);  // -n4
    if (option->check_name(name) && std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  return found;
}

/// CLI11 names the option and the word in its own way, such as "Could not convert: --ranks = abc".
std::string explained(const CLI::App& command, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const std::string said = error.what();
  const std::size_t name = said.find(": ") + 2;
  const std::size_t value = said.find(" = ");
  if (error.get_name() == "ConversionError" && value != std::string::npos) {
    const std::string option = said.substr(name, value - name);
    return fmt::format("{} takes {}, not \"{}\"", option, what_it_takes(command.get_option_no_throw(option)),
                       said.substr(value + 3));
  }
  constexpr std::string_view requires_option = " requires ";
  if (const std::size_t at = said.find(requires_option); error.get_name() == "RequiresError" && at != std::string::npos)
    return fmt::format("{} belongs to {}", said.substr(0, at), said.substr(at + requires_option.size()));
  if (error.get_name() != "ArgumentMismatch" || said.find(" required ") == std::string::npos) return said;
  const std::string option = said.substr(0, said.find(':'));
  if (said.find(": At Most ") == std::string::npos) return fmt::format("{} needs a value", option);
  const auto spellings = spellings_of(command.get_option_no_throw(option), words);
  if (spellings.size() < 2)
    return fmt::format("{} is given more than once", spellings.empty() ? option : spellings.front());
  return fmt::format("{} are one option, which is given more than once", fmt::join(spellings, " and "));
}

}  // namespace

bool parse_command_line(CLI::App& app, int argc, char** argv, std::string_view who) {
  take_extras(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(app, error, {argv + 1, argv + argc}, who);
  }
  refuse_extras(app, std::string{who});
  refuse_empty_values(app, std::string{who});
  return true;
}

void refuse_empty_values(const CLI::App& app, std::string who) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (!option->get_positional() && std::ranges::find(values, "") != values.end())
      wrong(who, fmt::format("{} needs a value, not an empty word", option->get_name()));
  }
  for (const CLI::App* given : app.get_subcommands([](const CLI::App* one) { return one->parsed(); }))
    refuse_empty_values(*given, fmt::format("{} {}", who, given->get_name()));
}

void refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
            std::string_view who) {
  std::string called{who};
  const CLI::App& command = innermost(app, called);
  wrong(called, explained(command, error, words));
}

}  // namespace tutti::cli
