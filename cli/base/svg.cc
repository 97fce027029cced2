#include "cli/base/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tutti::cli {
namespace {

std::string pair(Point point) { return coordinate(point.x) + " " + coordinate(point.y); }

constexpr double label_height = 10;
double label_width(std::string_view words) { return 6.0 * static_cast<double>(words.size()); }

}  // namespace

std::string escaped(std::string_view words) {
  std::string text;
  for (const char c : words) {
    if (c == '&')
      text += "&amp;";
    else if (c == '<')
      text += "&lt;";
    else if (c == '>')
      text += "&gt;";
    else
      text += c;
  }
  return text;
}

std::string coordinate(double value) {
  const long tenths = std::lround(value * 10);
  const long whole = std::labs(tenths) / 10;
  const long rest = std::labs(tenths) % 10;
  std::string text = (tenths < 0 ? "-" : "") + std::to_string(whole);
  return rest == 0 ? text : text + "." + std::to_string(rest);
}

void Svg::path(std::string_view data, std::string_view css_class) {
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", css_class, data);
}

void Svg::line(Point from, Point to, std::string_view css_class) {
  path(fmt::format("M{}L{}", pair(from), pair(to)), css_class);
}

void Svg::arc(Point from, Point to, double bend, std::string_view css_class) {
  const Point middle{(from.x + to.x) / 2 - (to.y - from.y) * bend, (from.y + to.y) / 2 + (to.x - from.x) * bend};
  path(fmt::format("M{}Q{} {}", pair(from), pair(middle), pair(to)), css_class);
}

void Tiles::add(Point corner, double width, double height) {
  path_ += fmt::format("M{}h{}v{}h{}z", pair(corner), coordinate(width), coordinate(height), coordinate(-width));
}

void Tiles::draw(std::string_view css_class, Svg& svg) const {
  if (!path_.empty()) svg.path(path_, css_class);
}

void Svg::circle(Point centre, double radius, std::string_view css_class) {
  body_ += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", css_class, coordinate(centre.x),
                       coordinate(centre.y), coordinate(radius));
}

void Svg::text(Point at, Anchor anchor, std::string_view words, std::string_view css_class) {
  constexpr std::string_view anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  const std::string of_class = css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class);
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", coordinate(at.x), coordinate(at.y),
                       anchors[static_cast<std::size_t>(anchor)], of_class, escaped(words));
}

void Svg::add(const Svg& other, Point at) {
  body_ +=
      fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", coordinate(at.x), coordinate(at.y), other.body());
}

void Svg::label(Point centre, std::string_view words) {
  const double width = label_width(words);
  Tiles box;
  box.add({centre.x - width / 2, centre.y - label_height / 2}, width, label_height);
  box.draw("paper", *this);
  text({centre.x, centre.y + 3.5}, Anchor::middle, words, "small");
}

bool Boxes::take_label(Point centre, std::string_view words) {
  return take(centre, label_width(words) + 2, label_height + 2);
}

bool Boxes::take(Point centre, double width, double height) {
  const Box box{centre.x - width / 2, centre.y - height / 2, centre.x + width / 2, centre.y + height / 2};
  for (const Box& other : taken_)
    if (box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)
      return false;
  taken_.push_back(box);
  return true;
}

}  // namespace tutti::cli
