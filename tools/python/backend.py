#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Build the wheel and the sdist, reproducibly, with no other package.

backend.py [DIRECTORY]   build both into DIRECTORY (default: dist); `make wheel` calls this
This file is also a PEP 517 and PEP 660 backend: `pip install tools/python`, also with --no-index and -e.
SOURCE_DATE_EPOCH: the time of the files in both; default 1980.
"""
import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import sys
import tarfile
import time
import zipfile

import abi

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "gpushare"
ABI = PACKAGE / "_abi.py"
LICENSES = (HERE / "LICENSE", HERE.parent.parent / "LICENSE")  # in an sdist; in the repository
OLDEST = 315532800  # 1980: the earliest time in a zip file
TAG = "py3-none-any"


def version():
    return re.search(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.M).group(1)


def value(key):
    return re.search(rf'^{key} = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.M).group(1)


def moment():
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST)), OLDEST)


def metadata():
    project = (HERE / "pyproject.toml").read_text()
    classifiers = re.findall(r'^\t"(.+)",$', project, re.M)
    head = [("Metadata-Version", "2.1"), ("Name", value("name")), ("Version", version()),
            ("Summary", value("description")), ("License", "MIT"), ("Requires-Python", value("requires-python")),
            *(("Classifier", c) for c in classifiers), ("Description-Content-Type", "text/markdown")]
    return "".join(f"{k}: {v}\n" for k, v in head) + "\n" + (HERE / "README.md").read_text()


def abi_module():
    # an sdist lacks the header, but has the generated module
    if abi.HEADER.exists() and not (HERE / "PKG-INFO").exists():
        return abi.generate(abi.HEADER.read_text()).encode()
    return ABI.read_bytes()


def modules():
    """(path below PACKAGE, bytes) of each module. Don't use the folder's _abi.py: it may be old or missing, and the
    folder may be read-only."""
    found = [p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix in (".py", ".typed") and p != ABI]
    return sorted([(p.relative_to(PACKAGE).as_posix(), p.read_bytes()) for p in found] + [(ABI.name, abi_module())])


def license_text():
    return next(p for p in LICENSES if p.exists()).read_bytes()


def wheel(directory, files):
    """Write a wheel with `files`, which are (name, bytes) pairs. Returns its file name."""
    base = f"gpushare-{version()}"
    info = f"{base}.dist-info"
    wheel_text = f"Wheel-Version: 1.0\nGenerator: gpushare\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    files = [*files, (f"{info}/METADATA", metadata().encode()), (f"{info}/WHEEL", wheel_text.encode()),
             (f"{info}/LICENSE", license_text())]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    name = f"{base}-{TAG}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files:
            entry = zipfile.ZipInfo(file, time.gmtime(moment())[:6])
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return name


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return wheel(wheel_directory, [(f"gpushare/{name}", data) for name, data in modules()])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    made = abi_module()
    if not ABI.exists() or ABI.read_bytes() != made:
        ABI.write_bytes(made)
    return wheel(wheel_directory, [("gpushare.pth", f"{PACKAGE.parent}\n".encode())])


def build_sdist(sdist_directory, config_settings=None):
    base = f"gpushare-{version()}"
    files = [(f"{PACKAGE.relative_to(HERE).as_posix()}/{name}", data) for name, data in modules()]
    files += [(name, (HERE / name).read_bytes()) for name in ("README.md", "pyproject.toml", "backend.py", "abi.py")]
    files += [("LICENSE", license_text()), ("PKG-INFO", metadata().encode())]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(files):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), moment(), 0o644
            archive.addfile(entry, io.BytesIO(data))
    name = f"{base}.tar.gz"
    (pathlib.Path(sdist_directory) / name).write_bytes(gzip.compress(packed.getvalue(), 9, mtime=moment()))
    return name


if __name__ == "__main__":
    into = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    into.mkdir(parents=True, exist_ok=True)
    for built in (build_wheel(into), build_sdist(into)):
        print(into / built)
