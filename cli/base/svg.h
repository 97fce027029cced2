#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

struct Point {
  double x = 0;
  double y = 0;
};

enum class Anchor { start, middle, end };

/// Collects the elements of a drawing. Coordinates are rounded to tenths: the same drawing is the same text everywhere.
class Svg {
 public:
  void line(Point from, Point to, std::string_view css_class);
  /// From one point to the other, curved to the right by `bend` times its length.
  void arc(Point from, Point to, double bend, std::string_view css_class);
  void path(std::string_view data, std::string_view css_class);
  void circle(Point centre, double radius, std::string_view css_class);
  /// The baseline of `words` is at `at`.
  void text(Point at, Anchor anchor, std::string_view words, std::string_view css_class = {});
  /// Words of 10 px around `centre` on a white background.
  void label(Point centre, std::string_view words);
  void add(const Svg& other, Point at);

  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Rectangles of one kind, as one element.
class Tiles {
 public:
  void add(Point corner, double width, double height);
  void draw(std::string_view css_class, Svg& svg) const;

 private:
  std::string path_;
};

/// With '&', '<' and '>' as text of a drawing has them.
std::string escaped(std::string_view words);

/// "12.5", "3", never "-0"
std::string coordinate(double value);

/// Keeps labels apart: takes a box if it is free.
class Boxes {
 public:
  bool take(Point centre, double width, double height);
  bool take_label(Point centre, std::string_view words);

 private:
  struct Box {
    double left, top, right, bottom;
  };
  std::vector<Box> taken_;
};

}  // namespace tutti::cli
