#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
r"""Runs a program on a terminal, which pyte emulates: terminal.py ROWSxCOLUMNS STEP... -- PROGRAM [ARGUMENT]...
  see=TEXT     wait until the screen shows TEXT
  unseen=TEXT  wait until the screen does not show TEXT
  look=STYLE TEXT  wait until the screen shows TEXT in STYLE: plain, bold, or the name of a colour
  printed=TEXT wait until the program has printed these bytes, after those that earlier such steps have found
  changed      wait until the screen differs from what it was at the beginning of this step
  shown=FILE   write what the screen shows to FILE
  send=TEXT    type TEXT; \e \r \n \xHH are escape, return, newline, a byte in hexadecimal
  size=RxC     change the terminal's size
  kill=N       send signal N
  touch=FILE   create FILE, so that the test knows that this step is reached
  raw, cooked  wait until the terminal is in raw mode (no echo, no lines), or no longer
  end=N        wait until the program ends with exit code N; -N: by signal N
Prints at the end all that the program printed. Exit code 1: a step failed; stderr says which. TERM is `linux`, whose
escapes pyte knows; another is for the program to set (env TERM=...)."""
import codecs
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pyte

PATIENCE_S = 20
TAKE_S = 0.02


class Terminal:
    def __init__(self, size, command):
        self.printed, self.found = b"", 0
        self.screen = pyte.Screen(80, 24)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "linux"
            self.fd = 1
            self.resize(size)
            os.execvp(command[0], command)
        self.resize(size)

    def resize(self, size):
        rows, columns = map(int, size.split("x"))
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def take(self):
        """Read what the program prints, until nothing comes for TAKE_S."""
        while select.select([self.fd], [], [], TAKE_S)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the program has ended
                data = b""
            if not data:
                time.sleep(TAKE_S)
                return
            self.printed += data
            self.stream.feed(data)

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def looks(self, style, text):
        for row, line in enumerate(self.screen.display):
            if text in line:
                char = self.screen.buffer[row][line.index(text)]
                have = "bold" if char.bold else "plain" if char.fg == "default" else char.fg
                return have == style
        return False

    def has_printed(self, text):
        at = self.printed.find(text, self.found)
        self.found = at + len(text) if at >= 0 else self.found
        return at >= 0

    def is_raw(self):
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def has_ended(self, wanted):
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        if pid and code != wanted:
            sys.exit(f"terminal.py: end={wanted}: it ended with {code} (below 0: a signal)\n{self.text()}")
        return pid != 0

    def step(self, word, before):
        """Whether the step is done; if not, it is tried again."""
        kind, _, value = word.partition("=")
        data = codecs.escape_decode(value.replace("\\e", "\\x1b").encode())[0]
        if kind == "send":
            os.write(self.fd, data)
        elif kind == "size":
            self.resize(value)
        elif kind == "kill":
            os.kill(self.pid, int(value))
        elif kind in ("touch", "shown"):
            with open(value, "w", encoding="utf-8") as file:
                file.write(self.text() + "\n" if kind == "shown" else "")
        else:
            waits = {
                "see": lambda: value in self.text(),
                "unseen": lambda: value not in self.text(),
                "look": lambda: self.looks(*value.split(" ", 1)),
                "printed": lambda: self.has_printed(data),
                "changed": lambda: self.text() != before,
                "raw": self.is_raw,
                "cooked": lambda: not self.is_raw(),
                "end": lambda: self.has_ended(int(value)),
            }
            return waits[kind]()
        return True


def main():
    steps = sys.argv[2:sys.argv.index("--")]
    terminal = Terminal(sys.argv[1], sys.argv[sys.argv.index("--") + 1:])
    try:
        for word in steps:
            end, before = time.monotonic() + PATIENCE_S, terminal.text()
            terminal.take()
            while not terminal.step(word, before):
                if time.monotonic() > end:
                    sys.exit(f"terminal.py: {word}: it did not come; on the screen:\n{terminal.text()}")
                terminal.take()
        terminal.take()
    finally:
        try:
            os.kill(terminal.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    sys.stdout.buffer.write(terminal.printed)


main()
