#!/usr/bin/env python3
"""PyTorch's TCPStore and ours understand each other: its client at our server, our client at its server.

    torch_store.py path/to/tutti path/to/rendezvous_test

Needs a torch with TCPStore (made with 2.13.0); TESTED_TORCHRUN=/path/of/venv/bin/torchrun names one that is not this
Python's. Exits 77, after a line that says so, where there is none.
"""

import contextlib
import datetime
import os
import subprocess
import sys

try:
    from torch.distributed import PrefixStore, TCPStore
except ImportError as problem:
    python = os.path.join(os.path.dirname(os.environ.get("TESTED_TORCHRUN", "")), "python")
    if os.path.isabs(python) and os.path.exists(python) and python != sys.executable:
        os.execv(python, [python, *sys.argv])
    print(f"skipped: no torch ({problem})")
    sys.exit(77)

PATIENCE = datetime.timedelta(seconds=30)


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAILED: {what}: found {found!r}, wanted {wanted!r}")
    print(f"good: {what}")


def run(*words):
    """What a command prints, and its exit code."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.stdout.strip(), done.returncode


@contextlib.contextmanager
def our_server(tutti):
    server = subprocess.Popen([tutti, "store", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().split()[-1].rsplit(":", 1)
    finally:
        server.terminate()
        server.wait(timeout=10)


def torch_client(host, port):
    return TCPStore(host, int(port), world_size=None, is_master=False, timeout=PATIENCE, wait_for_workers=False)


def queues(store, other):
    for value in ("first", "second"):
        store.queue_push("queue", value)
    expect("queue_len", other.queue_len("queue"), 2)
    expect("queue_pop", [other.queue_pop("queue"), other.queue_pop("queue")], [b"first", b"second"])
    other.set_timeout(datetime.timedelta(milliseconds=100))
    try:
        other.queue_pop("queue")
        sys.exit("FAILED: something came from an empty queue")
    except Exception as error:
        print(f"good: a pop in vain ends ({type(error).__name__})")
    expect("the connection after a pop in vain", other.queue_len("queue"), 0)
    if hasattr(store, "list_keys"):
        expect("list_keys", sorted(store.list_keys()), ["a", "b", "c", "key", "n"])


def torch_client_at_our_server(tutti):
    with our_server(tutti) as (host, port):
        at = ("--rdzv", f"{host}:{port}")
        store = torch_client(host, port)
        store.set("key", b"\x00value\xff")
        expect("set, get", store.get("key"), b"\x00value\xff")
        expect("add", [store.add("n", 5), store.add("n", -7)], [5, -2])
        expect("compare_set of an absent key", store.compare_set("c", "", "first"), b"first")
        expect("compare_set, unequal", store.compare_set("c", "other", "second"), b"first")
        expect("compare_set, equal", store.compare_set("c", "first", "second"), b"second")
        expect("check", [store.check(["key", "n"]), store.check(["key", "absent"])], [True, False])
        store.append("key", "+")
        expect("append", store.get("key"), b"\x00value\xff+")
        store.multi_set(["a", "b"], ["1", "2"])
        expect("multi_set, multi_get", store.multi_get(["b", "a"]), [b"2", b"1"])
        if hasattr(store, "queue_push"):
            queues(store, torch_client(host, port))
        expect("num_keys", store.num_keys(), 5)
        expect("delete_key", [store.delete_key("a"), store.delete_key("a")], [True, False])
        store.wait(["key", "n"])
        try:
            store.wait(["never"], datetime.timedelta(milliseconds=100))
            sys.exit("FAILED: a wait in vain ended well")
        except Exception as error:  # its type differs between versions
            print(f"good: a wait in vain ends ({type(error).__name__})")
        expect("the connection after a wait in vain", store.get("c"), b"second")
        other = torch_client(host, port)
        PrefixStore("deep", PrefixStore("job", other)).set("k", "v")
        expect("what torch set, our client gets", run(tutti, "store", "get", "job/deep/k", *at), ("v", 0))
        expect("what our client sets", run(tutti, "store", "set", "from us", "hello", *at), ("", 0))
        expect("torch gets", store.get("from us"), b"hello")


def our_client_at_torch_server(tutti, rendezvous_test, use_libuv):
    kind = "libuv" if use_libuv else "plain"
    store = TCPStore("127.0.0.1", 0, world_size=None, is_master=True, timeout=PATIENCE, wait_for_workers=False,
                     use_libuv=use_libuv)
    place = f"127.0.0.1:{store.port}"
    at = ("--rdzv", place)
    store.set("from torch", "hello")
    expect(f"{kind}: our get", run(tutti, "store", "get", "from torch", *at), ("hello", 0))
    expect(f"{kind}: our set", run(tutti, "store", "set", "from us", "x y", *at), ("", 0))
    expect(f"{kind}: torch gets", store.get("from us"), b"x y")
    expect(f"{kind}: our add", run(tutti, "store", "add", "n", "-3", *at), ("-3", 0))
    expect(f"{kind}: our wait", run(tutti, "store", "wait", "n", "from us", *at), ("", 0))
    expect(f"{kind}: our wait in vain", run(tutti, "store", "wait", "never", "--timeout", "0.1", *at)[1], 1)
    expect(f"{kind}: our delete", run(tutti, "store", "delete", "n", *at), ("", 0))
    words = [rendezvous_test, "--source-file=*/store_test.cc,*/store_queue_test.cc"]
    if not use_libuv:
        words.append("--test-case-exclude=wait ends when the last*")  # its compare_set wakes nobody
    environment = dict(os.environ, FOREIGN_STORE=place)
    if use_libuv and hasattr(store, "list_keys"):
        environment["FOREIGN_STORE_HAS_QUEUES"] = "1"
    done = subprocess.run(words, env=environment, timeout=300, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {kind}: the tests of all stores\n{done.stdout}")
    print(f"good: {kind}: the tests of all stores ({done.stdout.strip().splitlines()[-3]})")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tutti, rendezvous_test = sys.argv[1:]
    torch_client_at_our_server(tutti)
    for use_libuv in (True, False):
        our_client_at_torch_server(tutti, rendezvous_test, use_libuv)


if __name__ == "__main__":
    main()
