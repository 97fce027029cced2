#!/usr/bin/env python3
"""tools/layers.py finds what it is there to find, and is silent about good code."""

import itertools
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import layers  # noqa: E402

LONG_BODY = "  work();\n" * 58


def findings(**files):
    """Errors for a tree with these files; `__` in a name is `/`, the last `_` is the dot."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / ".".join(name.replace("__", "/").rsplit("_", 1))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [f"{path}:{line}: {text}" for severity, path, line, text in layers.check(root) if severity == "error"]


def function_lengths(text):
    return [(title, last - first + 1) for first, last, title in layers.functions(text)]


class Layers(unittest.TestCase):
    def test_good_code_is_left_alone(self):
        self.assertEqual(findings(
            algorithms__ring_cc='#include "algorithms/plan.h"\n\n#include <vector>\n#include "tutti/error.h"\n',
            transport__tcp__link_cc="#include <asio/ip/tcp.hpp>\n#include <sys/socket.h>\n#include <fmt/format.h>\n",
            lib__engine__engine_h="#pragma once\n#include <memory>\n"), [])

    def test_scripts_are_as_short_as_other_files(self):
        self.assertEqual(findings(cli__page__x_js="step();\n" * 400, tests__x_py="step()\n" * 400), [])
        self.assertEqual(findings(cli__page__x_js="step();\n" * 401, tests__x_py="step()\n" * 401),
                         ["cli/page/x.js:401: 401 lines, a file has at most 400",
                          "tests/x.py:401: 401 lines, a file has at most 400"])

    def test_siblings_may_not_meet(self):
        for folder, other in [("algorithms", "lib/engine/engine.h"), ("algorithms", "transport/frame.h"),
                              ("transport", "rendezvous/exchange.h"), ("rendezvous", "transport/frame.h"),
                              ("lib/message", "lib/collective/call.h"), ("lib/board", "lib/message/messages.h"),
                              ("examples", "lib/engine/engine.h")]:
            found = findings(**{folder.replace("/", "__") + "__x_cc": f'\n#include "{other}"\n'})
            self.assertEqual(found, [f"{folder}/x.cc:2: {folder} may not include {other}"])
        self.assertEqual(findings(lib__board__x_cc='#include "lib/collective/call.h"\n',
                                  lib__collective__x_cc='#include "lib/board/window.h"\n'), [])

    def test_includes_point_downwards(self):
        order = ["lib/base", "lib/compute", "lib/security", "lib/observe", "transport", "lib/engine", "lib/failure",
                 "lib/group", "lib/message", "lib/startup", "lib/api"]
        for lower, upper in itertools.combinations(order, 2):
            self.assertEqual(findings(**{upper.replace("/", "__") + "__x_cc": f'#include "{lower}/x.h"\n'}), [])
            self.assertEqual(findings(**{lower.replace("/", "__") + "__x_cc": f'#include "{upper}/x.h"\n'}),
                             [f"{lower}/x.cc:1: {lower} may not include {upper}/x.h"])

    def test_what_is_measured_needs_no_tutti(self):
        self.assertEqual(len(findings(cli__measure__x_cc='#include "tutti/error.h"\n#include "lib/base/host.h"\n')), 2)
        self.assertEqual(len(findings(cli__base__x_cc='#include "cli/plan/view.h"\n')), 1)

    def test_public_headers_are_std_only(self):
        for name in ["fmt/format.h", "asio/io_context.hpp", "unistd.h"]:
            self.assertEqual(len(findings(lib__include__tutti__x_h=f"#pragma once\n#include <{name}>\n")), 1, name)
        self.assertEqual(len(findings(lib__include__tutti__x_h='#pragma once\n#include "lib/engine/engine.h"\n')), 1)

    def test_pure_code_does_not_touch_the_system(self):
        self.assertEqual(len(findings(algorithms__x_cc="#include <unistd.h>\n")), 1)
        self.assertEqual(len(findings(algorithms__x_cc="#include <asio/io_context.hpp>\n")), 1)

    def test_asio_stays_in_sources_of_two_folders(self):
        self.assertEqual(len(findings(lib__api__x_cc="#include <asio/io_context.hpp>\n")), 1)
        self.assertEqual(len(findings(transport__x_h="#pragma once\n#include <asio/io_context.hpp>\n")), 1)

    def test_slow_headers_stay_in_sources_of_the_program(self):
        self.assertEqual(findings(cli__a_cc="#include <CLI/CLI.hpp>\n"), [])
        self.assertEqual(len(findings(cli__a_h="#pragma once\n#include <CLI/CLI.hpp>\n")), 1)
        self.assertEqual(len(findings(lib__api__a_cc="#include <nlohmann/json.hpp>\n")), 1)
        self.assertEqual(findings(cli__simulate__simgrid__a_cc="#include <simgrid/s4u.hpp>\n"), [])
        for name in ("simgrid/s4u.hpp", "xbt/log.h"):
            self.assertEqual(len(findings(cli__simulate__simgrid__a_h=f"#pragma once\n#include <{name}>\n")), 1, name)

    def test_headers_need_their_guard_and_folders_a_rule(self):
        self.assertEqual(len(findings(lib__api__x_h="struct A {};\n")), 1)
        for name in ("utils__x_cc", "lib__x_cc", "lib__utils__x_cc", "tools__x_cc"):
            self.assertEqual(len(findings(**{name: "int a;\n"})), 1, name)

    def test_long_files_are_found(self):
        self.assertEqual(findings(lib__api__x_cc="\n" * 401), ["lib/api/x.cc:401: 401 lines, a file has at most 400"])
        self.assertEqual(findings(lib__api__x_cc="\n" * 400), [])
        self.assertEqual(len(findings(algorithms__ring_cc="\n" * 151)), 1)
        self.assertEqual(findings(algorithms__check_order_cc="\n" * 151), [])

    def test_tests_that_are_not_built_are_found(self):
        built = {"tests__lib__a_test_cc": "int a;\n", "tests__lib__meson_build": "executable('a', 'a_test.cc', 'kernels/b_test.cc')\n",
                 "tests__lib__kernels__b_test_cc": "int b;\n", "tests__lib__helper_cc": "int c;\n"}
        self.assertEqual(findings(**built), [])
        says = ":1: no meson.build names this test, so it never runs"
        self.assertEqual(findings(**{**built, "tests__lib__other_a_test_cc": "int d;\n"}), ["tests/lib/other_a_test.cc" + says])
        # That of another folder has another test of this name.
        self.assertEqual(findings(**built, tests__gpu__a_test_cc="int d;\n"), ["tests/gpu/a_test.cc" + says])
        scripts = {"tests__cli__meson_build": "files('../failure/a_test.py')\nforeach name : ['b']\n  files(name + '_test.py')\n",
                   "tests__failure__a_test_py": "", "tests__cli__b_test_py": "", "tests__python__c_test_py": "",
                   "tests__python__run_py": "", "tests__torch__d_test_py": ""}
        found = [f"tests/{name}_test.py{says}" for name in ("cli/a", "torch/d")]
        self.assertEqual(findings(**scripts, tests__cli__a_test_py=""), found)

    def test_long_functions_are_found(self):
        self.assertEqual(findings(lib__api__x_cc="void f() {\n" + LONG_BODY + "}\n"), [])
        self.assertEqual(findings(lib__api__x_cc="\nvoid f() {\n  a();\n" + LONG_BODY + "}\n"),
                         ["lib/api/x.cc:2: f has 61 lines, a function has at most 60"])
        self.assertEqual(findings(tests__lib__x_cc='TEST_CASE("a") {\n' + LONG_BODY * 1 + "\n}\n"), [])
        self.assertEqual(len(findings(tests__lib__x_cc='TEST_CASE("a") {\n' + LONG_BODY * 2 + "\n}\n")), 1)

    def test_long_classes_are_found_wherever_their_functions_are(self):
        header = "#pragma once\nclass A final : public B {\n" + "  int a;\n" * 180 + "};\n"
        source = "".join(f"void A::f{number}() {{\n" + "  work();\n" * 18 + "}\n" for number in range(10))
        self.assertEqual(findings(lib__api__a_h=header, lib__api__a_cc=source), [])
        self.assertEqual(findings(lib__api__a_h=header, lib__api__a_cc=source, lib__api__a_more_cc=source),
                         ["lib/api/a.h:2: A has 582 lines, this class has at most 400"])
        self.assertEqual(findings(lib__api__a_h=header, lib__api__a_cc=source, lib__group__a_cc=source), [])

    def test_long_classes_are_found_whatever_stands_beside_their_names(self):
        for opening, name in (("class A::Impl", "A::Impl"), ("class [[nodiscard]] Work", "Work"),
                              ("class [[nodiscard]] TUTTI_API Work : public Handle", "Work"), ("struct alignas(64) A", "A")):
            with self.subTest(opening=opening):
                # Its functions are elsewhere: one of itself, and one of a class inside it.
                text = opening + " {\n" + "  int a;\n" * 350 + "};\n"
                more = "".join(f"void {name}::{function}() {{\n" + "  work();\n" * 23 + "}\n" for function in ("f", "B::g"))
                self.assertEqual(findings(lib__api__a_cc=text, lib__api__a_more_cc=more),
                                 [f"lib/api/a.cc:1: {name} has 402 lines, this class has at most 400"])
                self.assertEqual(findings(lib__api__a_cc=text, lib__api__a_more_cc=more.replace("work();\n", "", 2)), [])


class Functions(unittest.TestCase):
    def test_two_classes_of_one_name_in_one_namespace(self):
        text = "#pragma once\n\nnamespace tutti::cli {\n\nstruct Streams {\n};\n\n}  // namespace tutti::cli\n"
        hidden = text.replace("cli {\n", "cli {\nnamespace {\n")
        self.assertEqual(findings(cli__plan__a_h=text, cli__run__b_h=text.replace("struct", "class"), cli__tune__c_h=hidden),
                         ["cli/run/b.h:5: cli/plan/a.h has a class tutti::cli::Streams, too"])

    def test_members_constructors_and_operators(self):
        self.assertEqual(function_lengths("""
namespace a {
class B : public C<int> {
 public:
  B(int x) : x_{x}, y_(2) {
    go();
  }
  template <class T>
  bool operator==(const T& other) const noexcept {
    return true;
  }
  auto size() const -> std::size_t { return 1; }
  int values[2] = {1, 2};
 private:
  int x_{0};
};
B::~B() = default;
B make(Options o = {}) {
  if (o) {
    return {};
  }
  return [] { return B{1}; }();
}
}  // namespace a
"""), [("B", 3), ("operator==", 4), ("size", 1), ("make", 6)])

    def test_strings_comments_and_branches_of_the_preprocessor(self):
        self.assertEqual(function_lengths("""
const char* text = R"(
  void not_me() {
)";
#if A
void f() {
#else
void f(int) {
#endif
  g("}", '{', 1'000);  // }
}
enum class E : unsigned char { one, two };
constexpr std::array<int, 2> table = {{1, 2}};
"""), [("f", 6)])


if __name__ == "__main__":
    unittest.main()
