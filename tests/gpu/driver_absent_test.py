#!/usr/bin/env python3
"""Where no GPU can be used: one sentence says why, with the remedy, wherever somebody asks, and all else works. Where nobody
asks, no driver is opened, and nothing is linked to one. Runs on the fake driver, and on files that are no driver.

    driver_absent_test.py TUTTI DRIVER_ABSENT FOLDER-OF-THE-FAKE LIBRARY... [-- unittest's words]
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness  # noqa: E402
from harness import Case, run, tutti  # noqa: E402

LIMIT = 40  # of one program, only to end one that hangs: they take some 20 ms
NAME = "libcuda.so.1"
SETTINGS = {name: None for name in os.environ if name.startswith(("FAKE_CUDA_", "CUDA_"))}
NO_GPU = "the NVIDIA driver finds no GPU; see in nvidia-smi whether the machine has one, and start a container with its GPUs"
BY_EXEC = "start ranks by exec, in Python by spawn"


def environment(folder, variables):
    return {**SETTINGS, "LD_LIBRARY_PATH": str(folder), **variables}


def probe(*words, folder, **variables):
    """What the program printed, by what it is about, and how it ended."""
    done = run(PROBE, *words, limit=LIMIT, env=environment(folder, variables))
    return dict(line.split(": ", 1) for line in done.out.splitlines()), done


def doctor(folder, **variables):
    done = tutti("doctor", "--json", limit=LIMIT, env=environment(folder, variables))
    found = [check for check in json.loads(done.out)["checks"] if check["what"] == "GPUs"]
    return found, done


@functools.cache
def code_with_a_gpu():
    found, done = doctor(FAKE)
    assert len(found) == 1 and found[0]["found"].startswith("1, driver for CUDA 13.0"), done
    return done.code


def machine_has_driver():
    # Meson puts the fake's folder into LD_LIBRARY_PATH, which the loader reads when a program starts.
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL('{NAME}')"]
    without = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return subprocess.run(command, env=without, capture_output=True, timeout=LIMIT, check=False).returncode == 0


class Absent(Case):
    def check_words(self, sentence):
        """One sentence: the cause, and after a semicolon the remedy."""
        self.assertRegex(sentence, r"^[^\n;]+; [^\n;]+[^\n;.]$")
        self.assertNotRegex(sentence, r"[.!?] [A-Z]")

    def check_calls(self, said, done, sentence, opened):
        self.check_words(sentence)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertEqual((said["available"], said["why not"]), ("no", sentence), done)
        for form, call in (("wait", "all_reduce"), ("start", "all_reduce"), ("prepare", "all_reduce"), ("send", "send")):
            self.assertEqual(said[form], f"unsupported: {call} on rank 0 of 1: {sentence}", form)
        self.assertEqual((said["host before"], said["host after"]), ("right", "right"), done)
        self.assertEqual(said["opened"], "yes" if opened else "no", done)

    def check(self, sentence, folder=None, opened=True, **variables):
        with self.subTest(sentence=sentence, **variables):
            said, done = probe(folder=folder or FAKE, **variables)
            self.check_calls(said, done, sentence, opened)
            self.assertEqual(said["opened before"], "no", done)
            found, done = doctor(folder or FAKE, **variables)
            self.assertEqual([check["found"] for check in found], [f"none that can be used: {sentence}"], done)
            has_gpu = os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvidiactl")
            self.assertEqual((found[0]["level"], found[0]["remedy"] != ""), ("warn", True) if has_gpu else ("ok", False))
            self.assertEqual(done.code, code_with_a_gpu(), done)

    def changed(self, old, new):
        """A copy of the fake driver with other names in it."""
        content = (FAKE / NAME).read_bytes()
        old, new = old.encode(), new.encode()
        self.assertEqual(len(old), len(new))
        self.assertIn(b"\0" + old + b"\0", content)
        return self.file(content.replace(b"\0" + old + b"\0", b"\0" + new + b"\0"))

    def file(self, content):
        (self.folder / NAME).write_bytes(content)
        return self.folder


class Sentences(Absent):
    def test_the_driver_that_the_others_lack(self):
        said, done = probe(folder=FAKE)
        self.assertEqual(done.code, 0, done)
        self.assertEqual((said["available"], said["why not"]), ("yes", ""), done)
        self.assertEqual((said["opened before"], said["opened"]), ("no", "yes"), done)
        self.assertEqual((said["host before"], said["host after"]), ("right", "right"), done)

    def test_there_is_none(self):
        if machine_has_driver():
            self.skipTest("this machine has a driver")
        self.check(f"there is no NVIDIA driver ({NAME}: cannot open shared object file: No such file or directory); "
                   "install one, or start the container with its GPUs", folder=self.folder, opened=False)

    def test_it_is_too_old(self):
        for version, shown in (("11080", "11.8"), ("11999", "11.99"), ("0", "0.0")):
            self.check(f"the NVIDIA driver is too old: it belongs to CUDA {shown}, and tutti needs 12.0 or later; update it",
                       FAKE_CUDA_VERSION=version)
        said, done = probe(folder=FAKE, FAKE_CUDA_VERSION="12000")
        self.assertEqual(said["available"], "yes", done)

    def test_an_old_one_lacks_what_came_later(self):
        self.check("the NVIDIA driver is too old: it belongs to CUDA 11.4, and tutti needs 12.0 or later; update it",
                   folder=self.changed("cuGetProcAddress_v2", "cuGetProcAddress_v1"), FAKE_CUDA_VERSION="11040")

    def test_it_is_a_stub(self):
        for fault in ("*@*=34", "cuInit@*=34"):
            self.check(f"{FAKE / NAME} is the stub of a CUDA toolkit, not a driver; take its folder out of LD_LIBRARY_PATH",
                       FAKE_CUDA_FAIL=fault)

    def test_the_file_is_broken(self):
        for content, how in ((b"", "file too short"), (b"This is no library.\n", "file too short"),
                             (b"This is no library.\n" * 500, "invalid ELF header")):
            folder = self.file(content)
            self.check(f"the NVIDIA driver is broken ({folder / NAME}: {how}); install it anew", folder=folder, opened=False)

    def test_a_library_that_it_needs_is_not_there(self):
        folder = self.changed("libstdc++.so.6", "libabsent.so.6")
        self.check("the NVIDIA driver is broken (libabsent.so.6: cannot open shared object file: No such file or directory); "
                   "install it anew", folder=folder, opened=False)

    def test_it_lacks_a_function(self):
        for name in ("cuInit", "cuMemMap", "cuLaunchKernel"):
            self.check(f"the NVIDIA driver is broken: {FAKE / NAME} lacks {name}; install it anew", FAKE_CUDA_MISSING=name)

    def test_it_lacks_a_function_that_finds_the_others(self):
        for name in ("cuDriverGetVersion", "cuGetProcAddress_v2"):
            folder = self.changed(name, name[:-1] + "9")
            self.check(f"the NVIDIA driver is broken: {folder / NAME} lacks {name}; install it anew", folder=folder)

    def test_there_is_no_gpu(self):
        self.check(NO_GPU, FAKE_CUDA_DEVICES="0")
        for function in ("cuInit", "cuDeviceGetCount"):
            self.check(NO_GPU, FAKE_CUDA_FAIL=f"{function}@*=100")

    def test_the_gpus_are_hidden(self):
        for value in ("", "-1"):
            self.check(f'CUDA_VISIBLE_DEVICES="{value}" hides all GPUs; unset it, or name GPUs in it',
                       CUDA_VISIBLE_DEVICES=value)

    def test_what_is_named_is_not_there(self):
        self.check('the NVIDIA driver finds none of the GPUs in CUDA_VISIBLE_DEVICES="0,1"; unset it, or name GPUs that '
                   "nvidia-smi lists", CUDA_VISIBLE_DEVICES="0,1", FAKE_CUDA_DEVICES="0")

    def test_it_does_not_start(self):
        for result, sentence in (
                (802, "the GPUs are not ready; start NVIDIA's fabric manager (nvidia-fabricmanager.service)"),
                (803, "the NVIDIA driver's kernel module has another version than its library; restart the machine"),
                (804, f"{FAKE / NAME} is a compatibility library that does not work with this GPU; take its folder out of "
                      "LD_LIBRARY_PATH"),
                (999, "the NVIDIA driver does not start: CUDA_ERROR_UNKNOWN (an answer of the fake driver); nvidia-smi may "
                      "say more"),
                (12345, "the NVIDIA driver does not start: error 12345; nvidia-smi may say more")):
            self.check(sentence, FAKE_CUDA_FAIL=f"cuInit@*={result}")
        self.check("the NVIDIA driver does not start: error 999; nvidia-smi may say more", FAKE_CUDA_FAIL="*@*=999")

    def test_a_benchmark_says_it_too(self):
        done = tutti("bench", "all_reduce", "--on", "gpu", limit=LIMIT, env=environment(FAKE, {"FAKE_CUDA_DEVICES": "0"}))
        self.assertEqual((done.code, done.err), (5, f"tutti: bench: --on gpu needs a GPU: {NO_GPU}\n"), done)


class Forks(Absent):
    def test_a_child_is_told_that_it_cannot_use_the_driver(self):
        said, done = probe("fork", folder=FAKE)
        self.assertEqual((said["available in the parent"], said["available in the parent after it"]), ("yes", "yes"), done)
        self.check_calls(said, done, f"process {said['parent']} had started the NVIDIA driver when it made this process by "
                         f"fork(); {BY_EXEC}", opened=True)

    def test_a_child_is_told_so_if_another_library_started_the_driver(self):
        said, done = probe("foreign", folder=FAKE)
        self.assertEqual(said["another library starts the driver"], "yes", done)
        self.check_calls(said, done, f"the NVIDIA driver was in use when this process was made by fork(); {BY_EXEC}", opened=True)

    def test_a_child_is_told_what_its_parent_lacked(self):
        said, done = probe("fork", folder=FAKE, FAKE_CUDA_DEVICES="0")
        self.assertEqual((said["available in the parent"], said["available in the parent after it"]), ("no", "no"), done)
        self.check_calls(said, done, NO_GPU, opened=True)


class Unused(Absent):
    NAMES = re.compile(r"(?:__)?(?:cu[A-Z]|cuda|nvrtc|nvml|nccl)\w*")
    LIBRARIES = re.compile(r"lib(?:cu|nv|nccl)\w*", re.IGNORECASE)

    def say(self, *words):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, check=True).stdout

    def test_nothing_is_linked(self):
        for file in (harness.PROGRAM, PROBE, *LIBRARIES):
            with self.subTest(file=file):
                is_archive = file.endswith(".a")
                listing = self.say("nm", *([] if is_archive else ["-D"]), "--undefined-only", file)
                names = {line.split()[-1].split("@")[0] for line in listing.splitlines() if line.startswith(" ")}
                self.assertIn("dlopen", names)  # it shows what it should
                self.assertEqual([name for name in names if self.NAMES.match(name)], [])
                if not is_archive:
                    needed = [line.split()[0] for line in self.say("ldd", file).splitlines()]
                    self.assertIn("libc.so.6", needed)
                    self.assertEqual([name for name in needed if self.LIBRARIES.match(name)], [])

    def searched(self, *words):
        """Whether a program looked for the driver, found or not. The loader itself says so."""
        done = tutti(*words, limit=LIMIT, env=environment(FAKE, {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(self.folder / "ld")}))
        self.assertEqual(done.code, 0, done)
        said = [path.read_text(errors="replace") for path in self.folder.glob("ld.*")]
        self.assertIn("libc.so.6", said[0])
        return any(f"find library={NAME} " in text for text in said)

    def test_one_that_is_loaded_just_behind_a_search_is_found_by_the_next(self):
        said, done = probe("meanwhile", folder=FAKE)
        self.assertEqual(said, {"found before": "no", "loaded": "yes", "found": "yes"}, done)

    def test_ranks_that_use_memory_of_the_host_open_none(self):
        self.assertFalse(self.searched("bench", "all_reduce", "-g", "2", "-b", "1K", "-e", "1M", "-f", "32", "-n", "2", "-w", "1"))
        self.assertTrue(self.searched("doctor"))


if __name__ == "__main__":
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    harness.PROGRAM, PROBE, FAKE, *LIBRARIES = own
    FAKE = pathlib.Path(FAKE)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
