# SPDX-License-Identifier: MIT
"""What the Python programs of the matrix share: being skipped, and a checksum."""
import hashlib
import importlib
import sys


def need(*names):
    """The modules; without one of them the program is skipped, and says why."""
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ImportError as error:
            skip(f"no usable module {name}: {error}")
    return found[0] if len(found) == 1 else found


def skip(why):
    print(why)
    sys.exit(77)


def checksum(array):
    """Of an array on the host: every bit counts."""
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]
