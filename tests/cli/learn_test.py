"""tutti learn and docs/learn: lessons are printed and made into pages, their pictures are the plans', their commands run."""

import html.parser
import http.client
import pathlib
import re
import shutil
import signal
import socket
import urllib.parse

import harness
from harness import Case, run, tutti

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LESSONS = sorted((ROOT / "docs/learn").glob("[0-9]*.md"))
PICTURE = re.compile(r'^!\[([^\]]+)\]\(([a-z0-9-]+\.svg) "tutti (plan [^"]+)"\)$', re.M)


def titles():
    return [re.match(r"# \d+\. (.*)\n", lesson.read_text()).group(1) for lesson in LESSONS]


def commands(block):
    """(command, lines that it prints) of a block of code."""
    found = []
    for line in re.sub(r" \\\n +", " ", block).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def measurements(lesson):
    return [one for block in re.findall(r"```console\n(.*?)```", lesson.read_text(), re.S) for one in commands(block)]


def quick(command):
    """Smaller lists and fewer of them, so that it takes a moment, and tutti from where it is."""
    command = re.sub(r"-b 4M -e 4M", "-b 64K -e 64K", re.sub(r"-e 16M", "-e 64K", command))
    command = re.sub(r"--max-time 2", "--max-time 0.05", re.sub(r"-n 5\b", "-n 1", command))
    build = pathlib.Path(harness.PROGRAM).parent
    return re.sub(r"(?<![\w/])build/", f"{build}/", re.sub(r"(?<![\w/])tools/", f"{ROOT}/tools/", command))


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.sources, self.depth = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "a":
            self.links.append(attributes["href"])
        if "src" in attributes:
            self.sources.append((attributes["src"], attributes.get("alt", "")))
        if tag not in ("meta", "link", "img", "br", "hr", "!doctype"):
            self.depth.append(tag)

    def handle_endtag(self, tag):
        assert self.depth.pop() == tag, tag


class Print(Case):
    def test_lessons_are_listed_in_order(self):
        done = tutti("learn")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(len(LESSONS), 11)
        self.assertEqual(re.findall(r"^ +(\d+)  (.*)$", done.out, re.M),
                         [(str(i + 1), title) for i, title in enumerate(titles())])

    def test_a_lesson_fits_the_terminal_and_keeps_its_words_and_commands(self):
        for number, lesson in enumerate(LESSONS, 1):
            done = tutti("learn", number)
            self.assertEqual(done.code, 0, done)
            self.assertTrue(done.out.startswith(f"{number}. {titles()[number - 1]}\n==="), done)
            for line in done.lines:
                self.assertTrue(len(line) <= 80 or line.strip().startswith("<http"), line)
            self.assertNotRegex(done.out, r"\*\*|\]\(|^```", "Markdown is left over")
            self.assertNotIn("All lessons", done.out)
            self.assertEqual(re.findall(r"^(?:Next|This was the last).*", done.out, re.M),
                             [f"Next: tutti learn {number + 1}, {title}" for title in titles()[number:number + 1]])
            for block in re.findall(r"```\w*\n(.*?)```", lesson.read_text(), re.S):
                self.assertIn("".join(f"  {line}\n" if line else "\n" for line in block.splitlines()), done.out)
            words = " ".join(done.out.split())
            for paragraph in re.split(r"\n\n+", re.sub(r"```.*?```", "", lesson.read_text(), flags=re.S)):
                if not paragraph.startswith(("!", "#", "- ")) and "](" not in paragraph:
                    plain = " ".join(re.sub(r"(?<!')\*+(?=\S)|(?<=\S)\*+(?![\w,'])", "", paragraph).split())
                    self.assertIn(re.sub(r"[*]", "", plain), re.sub(r"[*]", "", words))

    def test_lists_keep_their_marks(self):
        self.assertSays(tutti("learn", 5).out, r"\n- ring: 2\(n-1\) steps")
        self.assertSays(tutti("learn", 3).out, r"\n1\. The first time round", r"\n2\. The second time round it spreads")

    def test_there_are_no_others(self):
        for word in ("0", "12", "-3", "ring", "3x", "99999999999999999999"):
            done = tutti("learn", "--", word)
            self.assertEqual((done.code, done.out), (6, ""), done)
            self.assertSays(done.err, f'no lesson "{word}"; there are 1 to 11')
        self.assertEqual(tutti("learn", "3", "--serve").code, 6)
        self.assertEqual(tutti("learn", "1", "2").code, 6)

    def test_the_program_alone_is_enough(self):
        alone = shutil.copy(harness.PROGRAM, self.folder / "tutti")
        self.assertEqual(run(alone, "learn", "4", cwd="/").out, tutti("learn", "4").out)
        self.assertEqual(run(alone, "learn", "--html", self.folder / "pages", cwd="/").code, 0)


class Pages(Case):
    def pages(self):
        done = tutti("learn", "--html", self.folder / "lessons")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, rf"12 pages.*\n +file://{self.folder}/lessons/index.html\n")
        return {file.name: file.read_text() for file in (self.folder / "lessons").iterdir()}

    def test_the_address_opens_whatever_the_folder_is_called(self):
        done = tutti("learn", "--html", self.folder / "my lessons #1, 100 %")
        self.assertIn(f"file://{self.folder}/my%20lessons%20%231%2C%20100%20%25/index.html\n", done.out)
        self.assertTrue((self.folder / "my lessons #1, 100 %" / "index.html").exists())

    def test_they_hold_their_pictures_and_lead_to_each_other(self):
        pages = self.pages()
        self.assertEqual(set(pages), {"index.html"} | {f"{lesson.stem}.html" for lesson in LESSONS})
        for name, text in pages.items():
            page = Page(text)
            self.assertEqual(page.depth, [], f"{name} leaves elements open")
            for link in page.links:
                self.assertTrue(link in pages or link.startswith("https://"), f"{name}: {link}")
            for source, alt in page.sources:
                self.assertTrue(source.startswith("data:image/svg+xml,") and alt, name)
            around = re.sub(r'"data:[^"]*"', "", text)
            self.assertIsNone(re.search(r"url\(|@import|<script|<iframe", around), f"{name} fetches something")
        for before, after in zip(LESSONS, LESSONS[1:]):
            self.assertIn(f'rel="next" href="{after.stem}.html"', pages[f"{before.stem}.html"])
            self.assertIn(f'rel="prev" href="{before.stem}.html"', pages[f"{after.stem}.html"])
        for lesson in LESSONS:
            shown = [urllib.parse.unquote(source.split(",", 1)[1]) for source, _ in Page(pages[f"{lesson.stem}.html"]).sources]
            kept = [(lesson.parent / picture).read_text() for _, picture, _ in PICTURE.findall(lesson.read_text())]
            self.assertTrue(kept)
            self.assertTrue(shown == kept, f"{lesson.name}: the pictures are newer than the program")

    def test_a_second_time_replaces_them_and_leaves_other_files(self):
        self.pages()
        (self.folder / "lessons/mine.txt").write_text("mine")
        (self.folder / "lessons/index.html").write_text("old")
        self.assertIn("11 lessons", self.pages()["index.html"])
        self.assertEqual((self.folder / "lessons/mine.txt").read_text(), "mine")

    def test_a_folder_that_cannot_be_made_is_named(self):
        (self.folder / "file").write_text("")
        done = tutti("learn", "--html", self.folder / "file" / "lessons")
        self.assertEqual(done.code, 74, done)
        self.assertSays(done.err, f"cannot write {self.folder}/file/lessons/index.html")


class Serve(Case):
    def setUp(self):
        super().setUp()
        self.server = harness.start(harness.PROGRAM, "learn", "--serve")
        self.server.stdout.readline()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/$", self.server.stdout.readline()).group(1))

    def tearDown(self):
        self.server.send_signal(signal.SIGINT)
        self.server.communicate(timeout=10)
        super().tearDown()

    def ask(self, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def test_pages_are_served_and_nothing_else(self):
        tutti("learn", "--html", self.folder)
        for file in self.folder.iterdir():
            self.assertEqual(self.ask(f"/{file.name}"), (200, file.read_text()))
        self.assertEqual(self.ask("/"), (200, (self.folder / "index.html").read_text()))
        self.assertEqual(self.ask("/", "HEAD"), (200, ""))
        for path in ("/../../etc/passwd", "/none.html", "//", "/index.html/"):
            self.assertEqual(self.ask(path)[0], 404, path)
        self.assertEqual(self.ask("/", "POST")[0], 405)

    def test_those_who_are_silent_or_talk_nonsense_keep_nobody_out(self):
        silent = [socket.create_connection(("127.0.0.1", self.port), 10) for _ in range(40)]
        for one, noise in zip(silent, (b"GET", b"\0" * 30000, b"\r\n\r\n", b"GET\r\n\r\n", b"GET /", b" \r\n\r\n")):
            try:
                one.sendall(noise)
            except OSError:
                pass  # it was shown out already
        self.assertEqual(self.ask("/")[0], 200)
        for one in silent:
            one.close()

    def test_a_request_without_a_path_is_for_no_page(self):
        for request in (b"GET\r\n\r\n", b"HEAD\r\n\r\n", b"GET \r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.port), 10) as one:
                one.sendall(request)
                self.assertTrue(one.recv(100).startswith(b"HTTP/1.1 404 "), request)
        self.assertEqual(self.ask("/")[0], 200)

    def test_it_listens_on_this_host_only_and_ends_by_a_signal(self):
        listening = pathlib.Path(f"/proc/{self.server.pid}/net/tcp").read_text()
        self.assertSays(listening, rf"0100007F:{self.port:04X} 00000000:0000 0A")
        self.assertNotRegex(listening, rf"00000000:{self.port:04X} ")
        self.server.send_signal(signal.SIGINT)
        self.server.communicate(timeout=10)
        self.assertEqual(self.server.returncode, -signal.SIGINT)


class Text(Case):
    def test_pictures_are_drawn_from_the_plans_that_run(self):
        drawn = self.folder / "drawn"
        drawn.mkdir()
        done = run(ROOT / "tools/lesson_pictures", drawn, harness.PROGRAM, limit=60)
        self.assertEqual(done.code, 0, done)
        kept = {file.name: file.read_bytes() for file in (ROOT / "docs/learn").glob("*.svg")}
        self.assertEqual({file.name: file.read_bytes() for file in drawn.iterdir()}, kept,
                         "run tools/lesson_pictures, and look at what changed")
        named = [picture for lesson in LESSONS for _, picture, _ in PICTURE.findall(lesson.read_text())]
        self.assertEqual(sorted(named), sorted(kept))

    def test_links_lead_somewhere(self):
        for lesson in LESSONS:
            for target in re.findall(r"\]\(([^) ]+)", lesson.read_text()):
                if not target.startswith("https://"):
                    self.assertTrue((lesson.parent / target).exists(), f"{lesson.name}: {target}")

    def test_each_leads_to_the_next_and_the_list_to_all(self):
        names = [(lesson.name, title) for lesson, title in zip(LESSONS, titles())]
        for number, lesson in enumerate(LESSONS, 1):
            leads = [f"Next: [{title}]({name})." for name, title in names[number:number + 1]]
            self.assertEqual(lesson.read_text().rsplit("\n\n", 1)[1],
                             f"{(leads or ['This was the last one.'])[0]} [All lessons](README.md)\n")
        listed = re.findall(r"^\| \d+ \| \[(.*)\]\((.*)\) \|$", (ROOT / "docs/learn/README.md").read_text(), re.M)
        self.assertEqual([(name, title) for title, name in listed], names)

    def test_a_lesson_is_short_and_plain(self):
        for lesson in LESSONS:
            text = lesson.read_text()
            self.assertTrue(text.isascii(), lesson.name)
            self.assertLess(len(text.split()), 800, lesson.name)
            self.assertEqual(re.findall(r"^## (.*)$", text, re.M)[-2:], ["Measure it", "In Python"], lesson.name)

    def test_what_is_quoted_of_plans_is_what_they_print(self):
        frames = tutti("plan", "all_reduce", "--algo", "ring", "-n", "4").out
        self.assertIn(re.search(r"```\n(Step 1 of 6.*?)```", LESSONS[2].read_text(), re.S).group(1), frames)
        figures = tutti("plan", "all_reduce", "--algo", "ring", "-n", "8").out
        for line in re.search(r"```\n( +this plan.*?)```", LESSONS[3].read_text(), re.S).group(1).splitlines():
            self.assertIn(line, figures)

    def test_commands_of_a_stream_are_those_that_are_printed(self):
        (command, printed), = measurements(LESSONS[10])
        done = run(harness.PROGRAM, *command.split()[1:])
        self.assertIn("\n".join(printed[1:]), done.out)
        self.assertIn("as on one stream of a GPU", tutti("plan", "all_reduce", "--algo", "ring", "-n", "4", "--check").out)
        per_rank = [float(number) for number in re.search(r"reads ([\d.]+)\s+MiB, writes ([\d.]+) MiB", done.out).groups()]
        self.assertEqual(4 * sum(per_rank), 9 * (4 - 1))  # S is 1 MiB

    def test_plans_that_are_named_in_passing_exist(self):
        named = [words for lesson in LESSONS for words in re.findall(r"`(?:build/)?tutti (plan [^`]*)`", lesson.read_text())]
        self.assertGreater(len(named), 2)
        for words in named:
            self.assertEqual(tutti(*words.split()).code, 0, words)
        block = re.search(r"```\n(\$ build/tutti plan .*?)```", LESSONS[6].read_text(), re.S).group(1)
        (command, _), = commands(block)
        done = run(harness.PROGRAM, *command.split()[1:], cwd=self.folder)
        self.assertEqual(done.code, 0, done)
        self.assertTrue((self.folder / "two-trees.html").exists(), done)


class Commands(Case):
    """Each lesson ends with one command that measures what it says. Here it runs for a moment, to see that it does."""

    def shell(self, command):
        return run("sh", "-c", command, limit=120, cwd=ROOT)

    def test_every_lesson_has_one_that_runs(self):
        played = run(ROOT / "tools/hosts", "1", harness.PROGRAM, "--version").code != 3
        for lesson in LESSONS:
            with self.subTest(lesson=lesson.name):
                (command, printed), = measurements(lesson)
                if "tools/hosts" in command and not played:
                    print(f"{lesson.name}: no network name spaces here")
                    continue
                done = self.shell(quick(command))
                self.assertEqual(done.code, 0, f"{command}\n{done}")
                if "--format short" in command:
                    self.assertEqual(done.lines[0], printed[0])
                    self.assertEqual(done.lines[-1], printed[-1])
                    self.assertEqual(self.measured(done.lines), self.measured(printed))
                    for line in printed:
                        self.assertLessEqual(len(line), 78)

    def measured(self, lines):
        """What was compared, in order; sizes are others here."""
        rows = [re.match(r"  ([a-z][\w*:]*) +[\d.e+]+ [nmu]?s ", line) for line in lines]
        return [row.group(1) for row in rows if row]

    def test_what_goes_wrong_does_so_and_is_told_in_these_words(self):
        blocks = re.findall(r"```\n(\$ .*?)```", LESSONS[9].read_text(), re.S)
        done = self.shell(quick(commands(blocks[0])[0][0]))
        self.assertNotEqual(done.code, 0)
        self.assertSays(done.err, r"tutti: rank 2 \(host .*\) was killed by SIGKILL; it wrote nothing\n",
                        r"tutti: rank 2 was in all_reduce #4 \(17 x f64, sum\) with direct, in round 1 of 1, 136 bytes moved")
        command = re.search(r"\$ (build/tutti run -n 2 .*?')\n", blocks[1], re.S).group(1)
        done = self.shell(quick(command.replace("\n", " ")))
        self.assertNotEqual(done.code, 0)
        told = re.search(r"\.\.\.\n(.*)", blocks[1], re.S).group(1)
        self.assertIn(" ".join(told.split()), done.err)


if __name__ == "__main__":
    harness.main()
