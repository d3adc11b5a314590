#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A node that lists what it likes: fake_node.py VERSION PAGE... prints its port. VERSION is hex. A PAGE is names with
commas between them; after the page "..." follow ascending names without end. Every other ask is refused, with the
VERSION as the reason. It serves one connection after the other. $FAKE_UCX is the version of UCX that it offers. With
$FAKE_CONNECT it claims to have connected, and sends nothing by UCX."""
import os
import socket
import sys
from itertools import count

version, pages = bytes.fromhex(sys.argv[1]), sys.argv[2:]
HELLO, LIST, CONNECT = 1, 2, 7
STATUS_NOT_FOUND = b"\x08\xff" + b"\xff" * 8 + b"\x01"  # -1, as a varint of 10 bytes


def field(number, value):
    size = len(value)
    return bytes([number << 3 | 2]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + value


def send(connection, answer):
    connection.sendall(len(answer).to_bytes(4, "big") + answer)


def page(names, last=False):
    buffers = b"".join(field(1, field(1, name.encode()) + b"\x10\x04\x88\x01\xb6\x03") for name in names)  # 4 B, 0666
    return field(4, buffers + (b"\x10\x01" if last else b""))


def answer(connection, ask):
    if ask[0] >> 3 == HELLO or ask[0] >> 3 == CONNECT and "FAKE_CONNECT" in os.environ:
        ucx = os.environ.get("FAKE_UCX", "").encode()
        return send(connection, field(3, b"\x08\x04" + field(2, version) + field(5, ucx)))
    if ask[0] >> 3 != LIST:
        return send(connection, STATUS_NOT_FOUND + field(2, version))
    for i, names in enumerate(pages):
        if names == "...":
            for first in count(0, 32):
                send(connection, page([f"z{one:09}" for one in range(first, first + 32)]))
        send(connection, page([name for name in names.split(",") if name], i == len(pages) - 1))


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    with listener.accept()[0] as connection, connection.makefile("rb") as asks:
        try:
            while size := int.from_bytes(asks.read(4), "big"):
                answer(connection, asks.read(size))
        except OSError:
            pass
