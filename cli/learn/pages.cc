// Lessons as pages: changes the Markdown tree so that links lead to pages and pictures are embedded, renders it with
// libcmark, and adds a frame.

#include "cli/learn/pages.h"

#include <cmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "tutti/error.h"

namespace tutti::cli {
namespace {

using Node = std::unique_ptr<cmark_node, void (*)(cmark_node*)>;

constexpr std::string_view style = R"(
:root{color-scheme:light dark;--ink:#1d1f21;--paper:#fdfdfb;--quiet:#5c6066;--line:#d9d9d4;--shade:#f1f1ec;--link:#0b57a4}
@media(prefers-color-scheme:dark){:root{--ink:#dddcd7;--paper:#17191b;--quiet:#a0a4aa;--line:#3a3d40;--shade:#22262a;
--link:#8ab8ea}figure img{filter:invert(.88)}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:44rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);
font:1.05rem/1.6 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:1.5rem 0 1rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
a{color:var(--link)}
code,pre{font:.86em/1.5 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{background:var(--shade);border:1px solid var(--line);border-radius:.3rem;padding:.7rem .9rem;overflow-x:auto}
pre code{overflow-wrap:normal}
figure{margin:1.5rem 0;overflow-x:auto;border:1px solid var(--line);border-radius:.3rem}
figure img{display:block;width:100%;min-width:42rem}
figcaption{position:sticky;left:0;max-width:100%;padding:.5rem .9rem;color:var(--quiet);font-size:.85rem}
nav{display:grid;grid-template-columns:1fr auto 1fr;gap:1.5rem;font-size:.9rem}
nav .all{grid-column:2}nav .next{text-align:right}
nav:last-of-type{margin-top:3rem;border-top:1px solid var(--line);padding-top:1rem}
ol li{margin:.4rem 0}
@media(min-width:60rem){figure{width:56rem;margin-left:calc((100% - 56rem)/2)}}
)";

std::string escaped_html(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  return result;
}

/// A data URL with the whole picture.
std::string as_address(std::string_view svg) {
  std::string result = "data:image/svg+xml,";
  for (const char c : svg)
    if (std::string_view{"%#\"<>&'\n"}.find(c) == std::string_view::npos)
      result += c;
    else
      result += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return result;
}

const LessonFile& find(std::span<const LessonFile> files, std::string_view name) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const LessonFile& one) { return one.name == name; });
  if (found == files.end())
    throw Error(ErrorCode::system,
                fmt::format("learn: a lesson refers to {}, which is not a file of docs/learn", name));
  return *found;
}

std::string page_name(std::string_view lesson) { return std::string{lesson.substr(0, lesson.rfind('.'))} + ".html"; }

Node parse(std::string_view markdown) {
  return {cmark_parse_document(markdown.data(), markdown.size(), CMARK_OPT_DEFAULT), cmark_node_free};
}

std::string words_of(cmark_node* node) {
  std::string words;
  for (cmark_node* child = cmark_node_first_child(node); child != nullptr; child = cmark_node_next(child)) {
    const char* const literal = cmark_node_get_literal(child);
    words += literal != nullptr ? literal : cmark_node_get_type(child) == CMARK_NODE_SOFTBREAK ? " " : words_of(child);
  }
  return words;
}

/// A picture is alone in its paragraph, which a figure replaces.
void put_inside(cmark_node* image, std::span<const LessonFile> files) {
  const LessonFile& picture = find(files, cmark_node_get_url(image));
  const std::string html = fmt::format(
      "<figure tabindex=\"0\"><img src=\"{}\" alt=\"{}\"><figcaption>{}. Drawn by <code>{}</code>; with <code>--html "
      "page.html</code> added it writes a page that plays it</figcaption></figure>",
      as_address(picture.content), escaped_html(words_of(image)), escaped_html(words_of(image)),
      escaped_html(cmark_node_get_title(image)));
  cmark_node* const figure = cmark_node_new(CMARK_NODE_HTML_BLOCK);
  cmark_node_set_literal(figure, html.c_str());
  cmark_node* const paragraph = cmark_node_parent(image);
  if (cmark_node_replace(paragraph, figure) == 0)
    throw Error(ErrorCode::system, fmt::format("learn: {} is not in a paragraph of its own", picture.name));
  cmark_node_free(paragraph);
}

/// "algorithms/ring.cc" of "../../algorithms/ring.cc", as seen from docs/learn.
std::string in_source_tree(const std::string& url) {
  return std::filesystem::path{"docs/learn/" + url}.lexically_normal().string();
}

/// Links to another lesson lead to its page, other links out of these pages; for files of the source tree only the path
/// is shown.
void redirect(cmark_node* link, std::span<const LessonFile> files) {
  const std::string url = cmark_node_get_url(link);
  if (url.starts_with("http") || url.starts_with("#")) return;
  if (url.find('/') == std::string::npos) {
    cmark_node_set_url(link, page_name(find(files, url).name).c_str());
    return;
  }
  const std::string file = in_source_tree(url);
  const bool is_name = file.ends_with("/" + words_of(link));
  while (cmark_node* child = cmark_node_first_child(link))
    if (is_name)
      cmark_node_free(child);
    else
      cmark_node_insert_before(link, child);
  cmark_node* const place = cmark_node_new(CMARK_NODE_CODE);
  cmark_node_set_literal(place, file.c_str());
  cmark_node* const before = cmark_node_new(CMARK_NODE_TEXT);
  cmark_node_set_literal(before, is_name ? "" : " (");
  cmark_node* const after = cmark_node_new(CMARK_NODE_TEXT);
  cmark_node_set_literal(after, is_name ? "" : ")");
  for (cmark_node* const node : {before, place, after}) cmark_node_insert_before(link, node);
  cmark_node_free(link);
}

std::string body_of(const LessonFile& lesson, std::span<const LessonFile> files) {
  const Node document = parse(lesson.content);
  std::vector<cmark_node*> images;
  std::vector<cmark_node*> links;
  const std::unique_ptr<cmark_iter, void (*)(cmark_iter*)> walk{cmark_iter_new(document.get()), cmark_iter_free};
  for (auto event = cmark_iter_next(walk.get()); event != CMARK_EVENT_DONE; event = cmark_iter_next(walk.get())) {
    cmark_node* const node = cmark_iter_get_node(walk.get());
    if (event != CMARK_EVENT_ENTER) continue;
    if (cmark_node_get_type(node) == CMARK_NODE_IMAGE) images.push_back(node);
    if (cmark_node_get_type(node) == CMARK_NODE_LINK) links.push_back(node);
  }
  for (cmark_node* const link : links) redirect(link, files);
  for (cmark_node* const image : images) put_inside(image, files);
  // The text is our own, so embedded SVG may stay.
  const std::unique_ptr<char, void (*)(void*)> html{cmark_render_html(document.get(), CMARK_OPT_UNSAFE), std::free};
  return html.get();
}

std::string framed(const std::string& title, const std::string& navigation, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{} - tutti</title>\n<style>{}</style>\n</head>\n<body>\n{}<main>\n{}</main>\n{}</body>\n</html>\n",
      escaped_html(title), style, navigation, body, navigation);
}

std::string navigation(std::span<const LessonFile> lessons, std::size_t here) {
  std::string links;
  if (here > 0)
    links += fmt::format("<a rel=\"prev\" href=\"{}\">Previous: {}</a>\n", page_name(lessons[here - 1].name),
                         escaped_html(lesson_title(lessons[here - 1])));
  links += "<a class=\"all\" href=\"index.html\">All lessons</a>\n";
  if (here + 1 < lessons.size())
    links += fmt::format("<a class=\"next\" rel=\"next\" href=\"{}\">Next: {}</a>\n", page_name(lessons[here + 1].name),
                         escaped_html(lesson_title(lessons[here + 1])));
  return "<nav aria-label=\"Lessons\">\n" + links + "</nav>\n";
}

Page contents(std::span<const LessonFile> lessons) {
  std::string list;
  for (const LessonFile& lesson : lessons)
    list += fmt::format("<li><a href=\"{}\">{}</a></li>\n", page_name(lesson.name), escaped_html(lesson_title(lesson)));
  return {
      "index.html",
      framed("Lessons", "",
             fmt::format("<h1>How processes compute together: {} lessons</h1>\n<p>One idea each, drawn from the plans "
                         "that the library runs, and measured on your machine. The commands are typed in tutti's "
                         "folder after <code>tools/quickstart</code> has built it.</p>\n<ol>\n{}</ol>\n",
                         lessons.size(), list))};
}

}  // namespace

std::string lesson_title(const LessonFile& lesson) {
  const Node document = parse(lesson.content);
  const std::string heading = words_of(cmark_node_first_child(document.get()));
  const std::size_t dot = heading.find(". ");
  return dot == std::string::npos ? heading : heading.substr(dot + 2);
}

std::span<const LessonFile> lessons_among(std::span<const LessonFile> files) {
  const auto is_lesson = [](const LessonFile& one) { return one.name.ends_with(".md"); };
  return files.first(static_cast<std::size_t>(std::count_if(files.begin(), files.end(), is_lesson)));
}

std::vector<Page> lesson_pages(std::span<const LessonFile> files) {
  const std::span<const LessonFile> lessons = lessons_among(files);
  std::vector<Page> pages{contents(lessons)};
  for (std::size_t i = 0; i < lessons.size(); ++i)
    pages.push_back({page_name(lessons[i].name),
                     framed(lesson_title(lessons[i]), navigation(lessons, i), body_of(lessons[i], files))});
  return pages;
}

}  // namespace tutti::cli
