// Lessons for a terminal: walks over the Markdown tree, collects the words of a block, and wraps them at its end.

#include "cli/learn/text.h"

#include <cmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/base/text.h"

namespace tutti::cli {
namespace {

constexpr const char* code_margin = "  ";
constexpr char kept_space = '\x01';  // a space within a command, where lines do not break

std::string text_of(const char* literal) { return literal != nullptr ? literal : ""; }

std::string unbroken(std::string text) {
  std::replace(text.begin(), text.end(), ' ', kept_space);
  return text;
}

class Writer {
 public:
  void enter(cmark_node* node);
  void leave(cmark_node* node);
  std::string take() { return std::move(out_); }

 private:
  void flush();
  void begin_item();
  void code_block(const std::string& code);

  struct List {
    int next = 0;  // 0: with bullets
    bool tight = false;
    std::size_t mark_width() const { return next > 0 ? 3 : 2; }
  };
  std::string out_;
  std::string words_;  // of the current block
  std::vector<List> lists_;
  bool fresh_item_ = false;  // its first block follows the bullet on the same line
};

/// Prints the collected words as a paragraph.
void Writer::flush() {
  std::size_t hang = 0;
  for (const List& list : lists_) hang += list.mark_width();
  std::string text = std::string(fresh_item_ ? 0 : hang, ' ') + words_;
  if (fresh_item_ && !lists_.empty()) {
    const List& list = lists_.back();
    const std::string mark = list.next > 0 ? fmt::format("{}.", list.next - 1) : "-";
    text = std::string(hang - list.mark_width(), ' ') + fmt::format("{:<{}}", mark, list.mark_width()) + words_;
  }
  fresh_item_ = false;
  words_.clear();
  text = wrapped(text, hang);
  std::replace(text.begin(), text.end(), kept_space, ' ');
  out_ += text + "\n";
  if (lists_.empty() || !lists_.back().tight) out_ += "\n";
}

void Writer::begin_item() {
  fresh_item_ = true;
  if (lists_.back().next > 0) ++lists_.back().next;
}

void Writer::code_block(const std::string& code) {
  std::string line = code_margin;
  for (const char c : code) {
    line += c;
    if (c != '\n') continue;
    out_ += line == std::string{code_margin} + "\n" ? "\n" : line;
    line = code_margin;
  }
  out_ += "\n";
}

void Writer::enter(cmark_node* node) {
  switch (cmark_node_get_type(node)) {
    case CMARK_NODE_TEXT:
      words_ += text_of(cmark_node_get_literal(node));
      break;
    case CMARK_NODE_SOFTBREAK:
    case CMARK_NODE_LINEBREAK:
      words_ += ' ';
      break;
    case CMARK_NODE_CODE:
      words_ += unbroken("`" + text_of(cmark_node_get_literal(node)) + "`");
      break;
    case CMARK_NODE_IMAGE:
      words_ += "[Picture: ";
      break;
    case CMARK_NODE_LIST:
      lists_.push_back({cmark_node_get_list_type(node) == CMARK_ORDERED_LIST ? cmark_node_get_list_start(node) : 0,
                        cmark_node_get_list_tight(node) != 0});
      break;
    case CMARK_NODE_ITEM:
      begin_item();
      break;
    case CMARK_NODE_CODE_BLOCK:
      code_block(text_of(cmark_node_get_literal(node)));
      break;
    default:
      break;
  }
}

void Writer::leave(cmark_node* node) {
  switch (cmark_node_get_type(node)) {
    case CMARK_NODE_HEADING: {
      const std::string line(words_.size(), cmark_node_get_heading_level(node) == 1 ? '=' : '-');
      out_ += words_ + "\n" + line + "\n\n";
      words_.clear();
      break;
    }
    case CMARK_NODE_PARAGRAPH:
      flush();
      break;
    case CMARK_NODE_IMAGE:
      words_ += ". As text: " + unbroken("`build/" + text_of(cmark_node_get_title(node)) + "`") + "]";
      break;
    case CMARK_NODE_LINK: {
      const std::string url = text_of(cmark_node_get_url(node));
      if (url.starts_with("http")) words_ += " <" + url + ">";
      break;
    }
    case CMARK_NODE_LIST:
      if (lists_.back().tight) out_ += "\n";
      lists_.pop_back();
      break;
    default:
      break;
  }
}

}  // namespace

std::string lesson_as_text(std::string_view markdown) {
  const std::unique_ptr<cmark_node, void (*)(cmark_node*)> document{
      cmark_parse_document(markdown.data(), markdown.size(), CMARK_OPT_DEFAULT), cmark_node_free};
  const std::unique_ptr<cmark_iter, void (*)(cmark_iter*)> walk{cmark_iter_new(document.get()), cmark_iter_free};
  Writer writer;
  for (cmark_event_type event = cmark_iter_next(walk.get()); event != CMARK_EVENT_DONE;
       event = cmark_iter_next(walk.get())) {
    if (event == CMARK_EVENT_ENTER)
      writer.enter(cmark_iter_get_node(walk.get()));
    else
      writer.leave(cmark_iter_get_node(walk.get()));
  }
  std::string text = writer.take();
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace tutti::cli
