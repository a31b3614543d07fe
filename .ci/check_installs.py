"""Shows that presets and recipes reach the user from a checkout, `pip install -e .`, `pip install .`, a wheel and an
sdist.

Each way gets an environment of its own that borrows the dependencies of the one this runs in, and is tried from inside
and from outside
of the tree: the zoo is listed, the recipes are found, and the flagship translates.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRIAL = """
import json, pathlib, sys
import keras_attention as ka
assert "tensorflow" not in sys.modules
from keras_attention import resources
entries = [entry.name for entry in ka.zoo.list()]
recipes = sorted(path.name for path in resources.data_folder("training").glob("*.yaml"))
translation = ka.zoo.load("nmt_luong").translate("Where is the library?").output
print(json.dumps({"entries": entries, "recipes": recipes, "translation": translation, "package":
str(pathlib.Path(ka.__file__).parent)}))
"""


def run(*command, cwd=None, **environment):
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**keep, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def new_environment(folder: Path) -> Path:
    """An environment that sees the packages of this one, but not this library."""
    venv.create(folder)
    here = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"]
    Path(here, "borrowed.pth").write_text(borrowed_packages(folder.parent) + "\n", "utf-8")
    return folder / "bin" / "python"


def borrowed_packages(folder: Path) -> str:
    """A folder of links to all packages of this environment but our own."""
    links = folder / "borrowed"
    if not links.is_dir():
        links.mkdir()
        for package in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if "keras_attention" not in package.name:
                (links / package.name).symlink_to(package)
    return str(links)


def clean_copy(folder: Path) -> Path:
    """The tracked files, and nothing else, as a user would get them."""
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


def main():
    with tempfile.TemporaryDirectory(prefix="installs-") as temporary:
        temporary = Path(temporary)
        tree = clean_copy(temporary / "tree")
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", temporary / "dist", tree, cwd=temporary)
        (wheel,) = (temporary / "dist").glob("*.whl")
        (sdist,) = (temporary / "dist").glob("*.tar.gz")
        print(f"wheel {wheel.stat().st_size / 2**20:.1f} MiB, sdist {sdist.stat().st_size / 2**20:.1f} MiB")
        ways = {"checkout": None, "editable": ["-e", tree], "folder": [tree], "wheel": [wheel], "sdist": [sdist]}
        expected = None
        for way, target in ways.items():
            python = new_environment(temporary / f"venv-{way}")
            if target is not None:
                pip = [sys.executable, "-m", "pip", "--python", python]
                run(*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", *target, cwd=temporary)
            for place, folder in (("inside", tree), ("outside", temporary)):
                environment = {"PYTHONPATH": str(tree)} if way == "checkout" else {}
                found = json.loads(run(python, "-c", TRIAL, cwd=folder, **environment).splitlines()[-1])
                package = Path(found.pop("package"))
                if way in ("folder", "wheel", "sdist") and place == "outside":
                    assert tree not in package.parents, f"{way}: the installed package was not used, but {package}"
                expected = expected or found
                assert found == expected, f"{way}, {place} of the tree: {found} instead of {expected}"
                assert "nmt_luong" in found["entries"], found
                assert "nmt_luong.yaml" in found["recipes"], found
                print(f"{way:9} {place:8} ok: {found['translation']}")
            if target is not None:
                command = python.parent / "keras-attention"
                assert "nmt_luong" in run(command, "list", cwd=temporary)


if __name__ == "__main__":
    main()
