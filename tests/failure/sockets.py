"""The sockets of other processes, as /proc shows them."""

import contextlib
import pathlib
import socket
import struct

from harness import sockets_of

LISTENS, CONNECTED = "0A", "01"


def address_of(text):
    """127.0.0.1:4242 for 0100007F:1092"""
    host, port = text.split(":")
    words = [struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    name = socket.inet_ntop(family, b"".join(words))
    return f"{name}:{int(port, 16)}" if family == socket.AF_INET else f"[{name}]:{int(port, 16)}"


def tcp_sockets(pid, state):
    """Own and other end of each in that state."""
    mine = sockets_of(pid)
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a host without IPv6
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == state and fields[9] in mine:
                    found.append((address_of(fields[1]), address_of(fields[2])))
    return found


def tcp_listeners(pid):
    """Where it listens."""
    return [own for own, _ in tcp_sockets(pid, LISTENS)]


def unix_listeners(pid):
    """Names in the abstract namespace at which it listens, each with an @ before it."""
    mine = sockets_of(pid)
    lines = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    return [f[7] for f in lines if len(f) > 7 and f[3] == "00010000" and f[6] in mine and f[7].startswith("@")]
