"""The challenge and the store's protocol once more, from docs/wire.md alone: what a member says, byte by byte."""

import hmac
import os
import socket
import struct

LINK, WATCH, STORE = 1, 2, 3
HELLO, ANSWER, PROOF = 60, 64, 32


def derive(key, label, context=b""):
    return hmac.new(key, label + b"\0" + context, "sha256").digest()


def store_key(secret):
    return derive(secret, b"tutti store")


def job_key(secret, token):
    return derive(secret, b"tutti job", token)


def hello(purpose, rank_from=0, rank_to=0, channel=0, attempt=0, number=0, count=1):
    return b"TUTI" + struct.pack("<HBBiiQHBB", 4, purpose, 0, rank_from, rank_to, channel, attempt, number, count) + os.urandom(32)


def proof(key, said, answer):
    return hmac.new(key, b"tutti 4 initiator" + said + answer[:32], "sha256").digest()


def is_acceptors(key, said, answer):
    return answer[32:] == hmac.new(key, b"tutti 4 acceptor" + said + answer[:32], "sha256").digest()


def read(connection, count):
    """Exactly so much, or what came before the end."""
    data = b""
    while len(data) < count:
        try:
            piece = connection.recv(count - len(data))
        except ConnectionResetError:
            break
        if not piece:
            break
        data += piece
    return data


def dial(address, timeout=20):
    """An address of TCP, or the name of a Unix socket as "@0002f"."""
    if address.startswith("@"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        connection.connect("\0" + address[1:])
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout)


def enter(connection, key, said, prefix=b""):
    """Goes through the challenge; returns what was sent, for those who record it, or None when it was refused."""
    connection.sendall(prefix + said)
    answer = read(connection, ANSWER)
    if len(answer) < ANSWER or not is_acceptors(key, said, answer):
        return None
    mine = proof(key, said, answer)
    connection.sendall(mine)
    return prefix + said + mine if read(connection, 1) == b"W" else None


class Store:
    """A client of a store with a secret."""

    def __init__(self, address, secret):
        self.connection = dial(address)
        self.recorded = enter(self.connection, store_key(secret), hello(STORE), b"\x80")
        if self.recorded is None:
            self.connection.close()
            raise PermissionError("the store and this client do not have the same secret")
        self.connection.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))

    def get(self, key):
        name = b"/" + key.encode()
        self.connection.sendall(b"\x03" + struct.pack("<Q", len(name)) + name)
        return read(self.connection, struct.unpack("<Q", read(self.connection, 8))[0])

    def close(self):
        self.connection.close()
