#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A network between a puller and a node: relay.py NODE-PORT BYTES HELD GO prints its own port. It passes on BYTES of
what the node sends, then creates the file HELD and passes on nothing until the file GO appears. Meanwhile it only
notices that one side has ended. It serves one connection."""
import select
import socket
import sys
from pathlib import Path

port, left, held, go = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
puller = listener.accept()[0]
node = socket.socket()
node.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # so that little is on its way while it holds
node.connect(("127.0.0.1", port))
GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def hold():
    held.touch()
    poll = select.poll()
    for end in (puller, node):
        poll.register(end, GONE)
    while not go.exists():
        if poll.poll(20):
            sys.exit()


while True:
    for end in select.select([puller, node], [], [])[0]:
        try:
            data = end.recv(65536)
            (node if end is puller else puller).sendall(data)
        except OSError:
            sys.exit()
        if not data:
            sys.exit()
        if end is node and left > 0:
            left -= len(data)
            if left <= 0:
                hold()
