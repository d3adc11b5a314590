# SPDX-License-Identifier: MIT
"""Buffers of other hosts, by the command `gpushare pull`."""
import os
import subprocess
from typing import List, Mapping, Optional, Union

from . import _errors


def _refuse(code: int, sentence: str) -> _errors.GpushareError:
    sentence = sentence.strip().replace("gpushare: ", "", 1) or f"gpushare pull ended with code {code}"
    return _errors.of("E_INVALID", sentence) if code == 2 else _errors.GpushareError(sentence)


def pull(source: str, name: Optional[str] = None, *, via: Optional[str] = None, read_only: bool = False, mode: int = 0,
         group: Union[None, int, str] = None, tags: Optional[Mapping[str, str]] = None, device: Optional[int] = None,
         tls: Optional[str] = None, directory: Optional[str] = None) -> None:
    """Make kept copies of another node's buffers: all of them, or none. attach() finds them then.

    `source` is "NODE:NAME", or "NODE:PATTERN" for all that match. `name`: the name of a single copy; None: the name on
    the node. `via`: a node that may have pulled the same version, to read from. `tags` are set in addition to those of
    the source. `read_only`, `mode`: set in place of the source's. `group`: the group of the copy; the source's is not
    copied, so without `mode` and `group` no group has rights. `tls`: the directory of ca.pem and node.pem. `directory`:
    of the registry here. This runs the command `gpushare`, and waits until it has ended.

    Units: `mode` in bits as of a file; `device` is a CUDA ordinal. Threads: safe. Errors: InvalidError (arguments),
    NotSupportedError (no such command), GpushareError with the command's sentence for all else. Source: gpushare(1).
    """
    command: List[str] = ["gpushare", "pull", *(["--readonly"] if read_only else [])]
    options = {"--as": name, "--via": via, "--mode": f"{mode:o}" if mode else None, "--group": group,
               "--device": device, "--tls": tls, "--dir": directory}
    for option, value in options.items():
        command += [option, str(value)] if value is not None else []
    for key, text in (tags or {}).items():
        command += ["--tag", f"{key}={text}"]
    # the rules for this program's allocations must not apply to the command's
    environment = {key: value for key, value in os.environ.items() if key not in ("GPUSHARE_NAME", "GPUSHARE_ATTACH")}
    try:
        done = subprocess.run([*command, "--", source], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=environment, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError:
        raise _errors.of("E_NOT_SUPPORTED", "the command gpushare is not on PATH: install it") from None
    if done.returncode:
        raise _refuse(done.returncode, done.stderr)
