#!/usr/bin/env python3
"""tutti's store as one of PyTorch's, and PyTorch's stores as places where ranks of tutti meet."""

import datetime
import functools
import importlib.util
import os
import pathlib
import signal
import sys
import threading
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
sys.path.insert(0, str(HERE))

import harness
import torch
import torch.distributed as dist
from programs_test import fork_and_call

import pytutti
import pytutti.torch
import pytutti.torch.build

pytutti.torch.build.load()  # or build it, before any rank waits for others
PACKAGE = importlib.util.find_spec("pytutti._core")
LIMIT = datetime.timedelta(seconds=30)
SERVED = []  # what lives as long as the process
SHORT = datetime.timedelta(milliseconds=100)

# Passes on what a client and the server at the port of its argument say, prints its own port, and when the client has
# sent the operation `wait` for a queue.
RELAY = r'''
import select, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
other = {}
while ready := select.select([listener, *other], [], [], 30)[0]:
    for one in ready:
        if one is listener:
            client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            other |= {client: server, server: client}
            clients = {client} | (clients if len(other) > 2 else set())
        elif one in other and (said := one.recv(1 << 16)):
            other[one].sendall(said)
            if one in clients and said[:1] == b"\6" and b"queue" in said:
                print("a wait for the queue", flush=True)
        elif one in other:
            sys.exit()
'''


def found_by(wait, then):
    """What wait() returns in another thread, after then(); nothing if it does not end."""
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait()))
    waiting.start()
    then()
    waiting.join(30)
    return found


def seen_by(store, other):
    """What all calls return that stores have in common. `other` is a second object on the keys of `store`."""
    store.set("key", "value")
    store.set("odd", b"\0\xff/\n")
    store.multi_set(["a", "b"], ["1", ""])
    store.append("log", "x")
    store.append("log", "yz")
    found = [other.get("key"), other.get("odd"), other.multi_get(["a", "b", "log"])]
    found += [other.add("n", 5), store.add("n", -7), other.get("n")]
    found += [store.compare_set("key", "value", "new"), other.compare_set("key", "value", "lost"),
              store.compare_set("fresh", "", "made"), other.get("fresh")]
    found += [other.check(["key", "a"]), other.check(["key", "nothing"])]
    found += [store.delete_key("a"), store.delete_key("a"), other.check(["a"]), store.has_extended_api()]
    store.wait(["key", "b"])
    store.wait(["key"], LIMIT)
    return found


def all_reduce_over(backend, make_store, rank, size):
    """A program's rank whose process group meets in that store, and a second one after it."""
    store = make_store(rank, size)
    for name in ("first", "second"):
        dist.init_process_group(backend, store=dist.PrefixStore(name, store), rank=rank, world_size=size, timeout=LIMIT)
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor)
        assert tensor.item() == size * (size - 1) / 2, tensor
        group = dist.new_group([0, size - 1])
        if rank in (0, size - 1):
            dist.barrier(group)
        dist.barrier()
        dist.destroy_process_group()
    wait_for_all(store, rank, size)


def connect_in(make_store, rank, size):
    """A rank of tutti's own communicators, without a process group. It meets twice."""
    store = make_store(rank, size)
    for _ in range(2):
        with pytutti.connect(rank, size, store=store, setup_timeout=30) as comm:
            tensor = torch.tensor([float(rank)])
            comm.all_reduce(tensor, out=tensor)
            assert tensor.item() == size * (size - 1) / 2, tensor
    wait_for_all(store, rank, size)


def wait_for_all(store, rank, size):
    """Rank 0 may serve the store, so it is the last to go."""
    if rank:
        store.set(f"done {rank}", "")
    else:
        store.wait([f"done {peer}" for peer in range(1, size)], LIMIT)


def ours(url, secret_file, rank, size):
    return pytutti.torch.Store(rank, size, rendezvous=url, secret_file=secret_file, timeout=LIMIT)


def of_the_environment(variables, rank, size):
    os.environ.update(variables, TUTTI_RANK=str(rank), TUTTI_SIZE=str(size))
    return pytutti.torch.Store()


def tcp(port, rank, size):
    return dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=LIMIT)


def tcp_at_our_server(port, rank, size):
    """PyTorch's client."""
    if rank == 0:
        SERVED.append(ours(f"tcp://127.0.0.1:{port}", None, 0, size))
    return dist.TCPStore("127.0.0.1", port, size, is_master=False, timeout=LIMIT, wait_for_workers=False)


def file(path, rank, size):
    return dist.FileStore(path, size)


def prefix(path, rank, size):
    return dist.PrefixStore("job 7", dist.PrefixStore("step", dist.FileStore(path, size)))


def in_child(rank, size, function, *arguments):
    torch.set_num_threads(1)
    os.environ.update(TUTTI_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    function(*arguments, rank, size)


class Extension(unittest.TestCase):
    def test_no_compiler_is_needed_once_the_extension_is_there(self):
        with unittest.mock.patch.dict(os.environ, {"CXX": "no-such-compiler"}):
            self.assertTrue(pytutti.torch.build.extension().is_file())

    def test_an_empty_name_of_a_compiler_is_none(self):
        for name, wanted in (("", "c++"), (" ", "c++"), ("env c++", "env")):
            with unittest.mock.patch.dict(os.environ, {"CXX": name}):
                self.assertEqual(pytutti.torch.build.command(HERE)[0], wanted)


class Stores(harness.Case):
    def url(self):
        return f"tcp://127.0.0.1:{harness.free_port()}"

    def secret(self, words="sixteen characters or more"):
        path = self.folder / f"secret of {len(words)}"
        path.write_text(words)
        path.chmod(0o600)
        return str(path)

    def ranks(self, size, function, *arguments):
        fork_and_call(size, in_child, size, function, *arguments)

    def places(self):
        """Ways to make a store, by name."""
        port = harness.free_port
        secret = {"TUTTI_RDZV": self.url(), "TUTTI_SECRET": "a secret of the environment"}
        return {
            "ours": functools.partial(ours, self.url(), None),
            "ours, with a secret": functools.partial(ours, self.url(), self.secret()),
            "ours, as the environment says": functools.partial(of_the_environment, secret),
            "TCPStore": functools.partial(tcp, port()),
            "TCPStore at our server": functools.partial(tcp_at_our_server, port()),
            "FileStore": functools.partial(file, str(self.folder / "file")),
            "PrefixStore": functools.partial(prefix, str(self.folder / "prefix")),
        }

    def test_every_call_returns_what_it_returns_of_pytorchs_store(self):
        hash_store = dist.HashStore()
        wanted = seen_by(hash_store, hash_store)
        port = harness.free_port()
        served = tcp(port, 0, None)
        self.assertEqual(seen_by(served, tcp(port, 1, None)), wanted)
        alone = pytutti.torch.Store()
        self.assertEqual(seen_by(alone, alone), wanted)
        for secret_file in (None, self.secret()):
            url = self.url()
            stores = [ours(url, secret_file, rank, 2) for rank in range(2)]
            self.assertEqual(seen_by(*stores), wanted)
            self.assertEqual(seen_by(*(dist.PrefixStore("x", store) for store in stores)), wanted)
            self.assertGreaterEqual(stores[0].num_keys(), len({"key", "odd", "b", "log", "n", "fresh"}))
            self.assertIsInstance(stores[0], dist.Store)

    def pairs(self):
        """Two objects on the keys of one store, by name of its kind."""
        alone, hash_store = pytutti.torch.Store(), dist.HashStore()
        return {
            "PyTorch's HashStore": (hash_store, hash_store),
            "ours, alone": (alone, alone),
            **self.served_pairs(lambda port: port),
        }

    def served_pairs(self, port_of):
        """Those with a server at one port; the second object reaches it at port_of() that."""
        port, our_port, secret = harness.free_port(), harness.free_port(), self.secret()
        served, first = tcp(port, 0, None), ours(f"tcp://127.0.0.1:{our_port}", secret, 0, 2)
        both = first, ours(f"tcp://127.0.0.1:{port_of(our_port)}", secret, 1, 2)
        return {
            "PyTorch's TCPStore": (served, tcp(port_of(port), 1, None)),
            "ours, with a secret": both,
            "PyTorch's prefix of ours": tuple(dist.PrefixStore("x", store) for store in both),
        }

    def test_queues_are_pytorchs(self):
        empty = getattr(dist, "QueueEmptyError", dist.DistStoreError)
        for name, (store, other) in self.pairs().items():
            if not hasattr(store, "queue_push"):
                continue  # an older PyTorch's
            with self.subTest(name):
                store.queue_push("queue", "first")
                store.queue_push("queue", b"\0second")
                self.assertEqual([other.queue_len("queue"), store.queue_len("none")], [2, 0])
                self.assertTrue(other.check(["queue"]))
                other.wait(["queue"], LIMIT)
                self.assertNotIn("queue", store.list_keys() if hasattr(store, "list_keys") else [])
                self.assertEqual([other.queue_pop("queue"), store.queue_pop("queue", block=False)],
                                 [b"first", b"\0second"])
                self.assertFalse(other.check(["queue"]))
                with self.assertRaises(empty) as caught:
                    store.queue_pop("queue", False)
                if "ours" in name:
                    self.assertIn("queue_pop() without block=False waits", str(caught.exception))
                other.set_timeout(SHORT)
                with self.assertRaises(dist.DistStoreError) as caught:
                    other.queue_pop("queue")
                self.assertNotIsInstance(caught.exception, getattr(dist, "QueueEmptyError", ()))
                other.set_timeout(LIMIT)
                store.queue_push("queue", "after a pop in vain")
                self.assertEqual(other.queue_pop("queue"), b"after a pop in vain")

    def test_a_push_ends_the_pop_of_another_client(self):
        if not hasattr(dist.Store, "queue_push"):
            self.skipTest("an older PyTorch")
        relays = []

        def relayed(port):
            relays.append(harness.start(sys.executable, "-c", RELAY, port))
            self.addCleanup(relays[-1].communicate)
            self.addCleanup(relays[-1].kill)
            return int(relays[-1].stdout.readline())

        for name, (store, other) in self.served_pairs(relayed).items():
            relay = relays[1 if "TCPStore" in name else 0]

            def push(store=store, relay=relay):
                # The server had the wait before this was asked, and by the second answer it has served it.
                self.assertEqual(relay.stdout.readline(), "a wait for the queue\n")
                store.num_keys()
                store.num_keys()
                store.queue_push("queue", "value")

            with self.subTest(name):
                self.assertEqual(found_by(lambda: other.queue_pop("queue"), push), [b"value"])

    def test_keys_are_listed_as_the_store_names_them(self):
        for name, (store, other) in self.pairs().items():
            if not hasattr(store, "list_keys"):
                continue  # an older PyTorch's
            with self.subTest(name):
                store.set("a", "")
                dist.PrefixStore("deep", store).set("b", "")
                self.assertEqual(store.num_keys() >= 2, True)  # and a set is not answered
                self.assertEqual(sorted(other.list_keys()), ["a", "deep/b"])
                self.assertEqual(dist.PrefixStore("deep", other).list_keys(), ["b"])

    def test_pytorchs_server_without_queues_is_named(self):
        if "use_libuv" not in dist.TCPStore.__init__.__doc__:
            self.skipTest("an older PyTorch")
        served = dist.TCPStore("127.0.0.1", 0, None, is_master=True, timeout=LIMIT, wait_for_workers=False,
                               use_libuv=False)
        for call in (lambda store: store.queue_push("q", "x"), lambda store: store.queue_pop("q"),
                     lambda store: store.queue_len("q")):
            store = ours(f"store://127.0.0.1:{served.port}", None, 1, 2)
            with self.assertRaisesRegex(dist.DistStoreError, "queues .*since 2.8, and only with libuv"):
                call(store)

    def test_what_does_not_come_is_named(self):
        store = pytutti.torch.Store(0, 2, rendezvous=self.url(), timeout=LIMIT)
        with self.assertRaisesRegex(dist.DistStoreError, "nothing"):
            store.wait(["nothing"], SHORT)
        self.assertEqual(store.timeout, LIMIT)
        store.set_timeout(SHORT)
        self.assertEqual(store.timeout, SHORT)
        for call in (store.get, lambda key: store.wait([key]), lambda key: store.multi_get([key])):
            with self.assertRaisesRegex(dist.DistStoreError, "nothing"):
                call("nothing")
        store.set("key", "the connection goes on")
        self.assertEqual(store.get("key"), b"the connection goes on")

    def test_a_clone_sets_what_another_thread_waits_for(self):
        store = ours(self.url(), self.secret(), 0, 2)
        clone = store.clone()
        self.assertEqual(found_by(lambda: store.get("key"), lambda: clone.set("key", "value")), [b"value"])
        del store
        self.assertEqual(clone.get("key"), b"value")  # the server lives with it

    def test_wrong_calls_are_refused(self):
        store = pytutti.torch.Store()
        for words, call in (("without zero bytes", lambda: store.set("a\0b", "")),
                            ("2 keys has 1 values", lambda: store.multi_set(["a", "b"], ["1"])),
                            ("rank and size belong together", lambda: pytutti.torch.Store(1)),
                            ("there cannot be 0 ranks", lambda: pytutti.torch.Store(0, 0)),
                            ("rank 2 is not one of 2", lambda: pytutti.torch.Store(2, 2)),
                            ("not a rendezvous URL|rendezvous", lambda: ours("http://x", None, 0, 2))):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                call()

    def test_a_client_without_the_secret_is_kept_out(self):
        url = self.url()
        served = ours(url, self.secret(), 0, 2)
        for secret_file in (None, self.secret("another of sixteen characters")):
            with self.assertRaisesRegex(dist.DistStoreError, "secret"):
                store = pytutti.torch.Store(1, 2, rendezvous=url, secret_file=secret_file,
                                            timeout=datetime.timedelta(seconds=5))
                store.get("key")
        served.set("key", "it goes on")

    def test_ctrl_c_ends_a_wait(self):
        store = ours(self.url(), None, 0, 2)

        def interrupt(*_):
            raise KeyboardInterrupt("by a handler")

        old = signal.signal(signal.SIGALRM, interrupt)
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with self.assertRaisesRegex(KeyboardInterrupt, "by a handler"):
                store.wait(["nothing"], LIMIT)
        finally:
            signal.signal(signal.SIGALRM, old)
        self.assertLess(time.monotonic() - begin, LIMIT.total_seconds() / 2)

    def test_process_groups_meet_in_every_store(self):
        for name, make_store in self.places().items():
            for backend in ("tutti", "gloo") if name.startswith("ours") else ("tutti",):
                with self.subTest(name, backend=backend):
                    self.ranks(3, all_reduce_over, backend, make_store)

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_communicators_of_pytutti_meet_in_every_store(self):
        for name, make_store in self.places().items():
            with self.subTest(name):
                self.ranks(3, connect_in, make_store)

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_threads_meet_in_a_hash_store(self):
        store = dist.HashStore()
        threads = [threading.Thread(target=connect_in, args=(lambda *_: store, rank, 2)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertTrue(store.check(["done 1", "pytutti/2/0", "pytutti/2/1"]))

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_a_rank_that_does_not_come_is_named(self):
        words = "rank 0 of 3 has waited 0.1 s at a HashStore for ranks 1, 2"
        with self.assertRaisesRegex(pytutti.RendezvousFailed, words):
            pytutti.connect(0, 3, store=dist.HashStore(), setup_timeout=0.1)


if __name__ == "__main__":
    harness.PROGRAM = sys.executable  # what these tests run, and no sanitizer slows it
    unittest.main(verbosity=2)
