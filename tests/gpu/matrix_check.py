# SPDX-License-Identifier: MIT
"""Common code of the matrix's Python programs: skipping, and a checksum."""
import hashlib
import importlib
import sys


def need(*names):
    """Import the modules. If one is missing, the program is skipped, with the reason."""
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
    """A checksum of an array on the host, in which every bit counts."""
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]
