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
    """Make kept copies of another node's buffers, complete or not at all; attach() has them then.

    `source` is "NODE:NAME", or "NODE:PATTERN" for all that match. `name`: what to call a single one here; None: as it
    is called there. `via`: a node that may have pulled the same version, to read from. `tags` are set in addition.
    `read_only`, `mode` and `group` replace those of the source. `tls`: the directory of ca.pem and node.pem.
    `directory`: of the registry here. It runs the command `gpushare`, which must be installed, and waits for it.

    Units: bits of `mode` as of a file; a CUDA ordinal. Threads: safe. Errors: InvalidError (arguments),
    NotSupportedError (no such command), GpushareError with the command's sentence for all else. Source: gpushare(1).
    """
    command: List[str] = ["gpushare", "pull", *(["--readonly"] if read_only else [])]
    options = {"--as": name, "--via": via, "--mode": f"{mode:o}" if mode else None, "--group": group,
               "--device": device, "--tls": tls, "--dir": directory}
    for option, value in options.items():
        command += [option, str(value)] if value is not None else []
    for key, text in (tags or {}).items():
        command += ["--tag", f"{key}={text}"]
    # rules for this program's allocations are not for those of the command
    environment = {key: value for key, value in os.environ.items() if key not in ("GPUSHARE_NAME", "GPUSHARE_ATTACH")}
    try:
        done = subprocess.run([*command, "--", source], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=environment, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError:
        raise _errors.of("E_NOT_SUPPORTED", "the command gpushare is not on PATH: install it") from None
    if done.returncode:
        raise _refuse(done.returncode, done.stderr)
