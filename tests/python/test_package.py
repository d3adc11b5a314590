# SPDX-License-Identifier: MIT
"""The wheel and the sdist: reproducible, complete, and installable without a package index."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from common import ROOT, SOURCE, gpushare

TREE = ROOT / "tools" / "python"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "SOURCE_DATE_EPOCH"}


def run(*arguments, **named):
    made = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True,
                          **{"env": {**CLEAN, "PYTHONDONTWRITEBYTECODE": "1"}, **named})
    if made.returncode:
        raise AssertionError(made.stdout + made.stderr)
    return made.stdout


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in pathlib.Path(folder).iterdir()}


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def built(self, name, tree=TREE):
        run(tree / "backend.py", self.folder / name)
        return self.folder / name

    def test_the_same_bytes_from_the_same_files(self):
        copy = self.folder / "copy"
        shutil.copytree(TREE, copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
        shutil.copy(ROOT / "LICENSE", copy)
        first, second = digests(self.built("a")), digests(self.built("b", copy))
        self.assertEqual(first, second)
        self.assertEqual(sorted(first), [f"gpushare-{gpushare.__version__}-py3-none-any.whl",
                                         f"gpushare-{gpushare.__version__}.tar.gz"])

    def test_the_sdist_builds_the_same_wheel(self):
        made = self.built("a")
        with tarfile.open(next(made.glob("*.tar.gz"))) as archive:
            archive.extractall(self.folder / "x")
        again = self.built("b", next((self.folder / "x").iterdir()))
        self.assertEqual(digests(made), digests(again))

    def test_from_a_tree_that_is_stale_or_has_no_made_module(self):
        tree = self.folder / "tree"
        (tree / "include").mkdir(parents=True)
        shutil.copy(ROOT / "include" / "gpushare.h", tree / "include")
        shutil.copy(ROOT / "LICENSE", tree)
        shutil.copytree(TREE, tree / "tools" / "python", ignore=shutil.ignore_patterns("__pycache__", "dist"))
        made = tree / "tools" / "python" / "src" / "gpushare" / "_abi.py"
        want = digests(self.built("a"))
        made.write_text("stale")
        self.assertEqual(digests(self.built("b", tree / "tools" / "python")), want)
        self.assertEqual(made.read_text(), "stale")  # the tree may be read-only
        made.unlink()
        self.assertEqual(digests(self.built("c", tree / "tools" / "python")), want)
        self.assertFalse(made.exists())
        with self.assertRaisesRegex(AssertionError, "ImportError: .*_abi.py is missing.*run make"):
            run("-c", "import gpushare", env={**CLEAN, "PYTHONPATH": str(made.parent.parent)})
        shutil.rmtree(tree / "include")
        with self.assertRaisesRegex(AssertionError, "FileNotFoundError: .*_abi.py"):
            self.built("d", tree / "tools" / "python")

    def test_each_module_is_in_it(self):
        with zipfile.ZipFile(next(self.built("a").glob("*.whl"))) as archive:
            names = set(archive.namelist())
            self.assertIsNone(archive.testzip())
            info = f"gpushare-{gpushare.__version__}.dist-info"
            record = archive.read(f"{info}/RECORD").decode()
        for path in [*SOURCE.rglob("*.py"), SOURCE / "gpushare" / "py.typed"]:
            self.assertIn(path.relative_to(SOURCE).as_posix(), names)
        self.assertEqual({line.split(",")[0] for line in record.splitlines()}, names)

    def test_the_version_is_the_librarys(self):
        self.assertEqual(gpushare.__version__, gpushare.library_version())

    def test_installed_it_works(self):
        wheel = next(self.built("a").glob("*.whl"))
        target = self.folder / "installed"
        try:
            import pip  # noqa: F401
        except ImportError:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
        else:
            for what in (wheel, TREE):
                shutil.rmtree(target, ignore_errors=True)
                run("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check",
                    "--target", target, what, cwd=self.folder)
        said = run("-c", "import sys; sys.path.insert(0, sys.argv[1]); import gpushare; "
                   "print(gpushare.__file__, gpushare.library_version())", target, cwd=self.folder)
        self.assertEqual(said.split(), [str(target / "gpushare" / "__init__.py"), gpushare.library_version()])

    def test_the_types_are_complete(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        run("-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", self.folder, SOURCE / "gpushare")
        use = self.folder / "use.py"
        use.write_text("import gpushare\nlayers: list[gpushare.Info] = gpushare.list('a*')\n"
                       "shape: tuple[int, ...] = gpushare.attach('a', wait=1).shape\ngpushare.attach(1)\n")
        with self.assertRaisesRegex(AssertionError, r"use.py:4: .*arg-type[\s\S]*Found 1 error"):
            run("-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", self.folder, use,
                env={**CLEAN, "MYPYPATH": str(SOURCE)})


if __name__ == "__main__":
    unittest.main()
