"""Tries a wheel or a source distribution in an empty environment: contents, installation, command, import.

It does not test the results of Kinema. The wheel is installed offline from a folder of downloaded wheels, as
docs/install-offline.md says, into an empty environment whose PATH has no cargo; the source distribution is built
in an environment with cargo. All happens in a temporary folder outside the project.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# 6 atoms, 3 frames, written by MDAnalysis
TRAJECTORY = ROOT / "crates/kinema-core/tests/data/dcd/by_mdanalysis.dcd"
WANTED_IN_WHEEL = ("kinema/py.typed", "kinema/_core.pyi", "kinema/cli/__init__.py", "/licenses/LICENSE")
WANTED_IN_SOURCES = ("Cargo.lock", "pyproject.toml", "LICENSE", "README.md", "python/kinema/py.typed", "_core.pyi")
# left by a build or a run in the working folder
UNWANTED = re.compile(r"\.pyc$|__pycache__|/target/|\.kinema-index$|/\.venv/")
CHECK_IMPORT = """
import os, sys
import kinema
installed = os.path.dirname(kinema.__file__)
assert installed.startswith(sys.prefix), installed
assert all(os.path.exists(os.path.join(installed, name)) for name in ("py.typed", "_core.pyi"))
assert "MDAnalysis" not in sys.modules
trajectory = kinema.open("small.dcd")
assert trajectory.read().shape == (3, 6, 3)
assert kinema.analysis.RMSF(trajectory).run().results.rmsf.shape == (6,)
import MDAnalysis
atoms = MDAnalysis.Universe.empty(6).atoms[:2]
assert trajectory.select(atoms).n_atoms == 2
print(kinema.__version__)
"""


class Failed(Exception):
    """A fault of the distribution, in one line."""


def members(distribution: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in a wheel or a source distribution."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist())
        return
    with tarfile.open(distribution) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                yield member.name, file.read()


def folders_of_this_machine() -> list[bytes]:
    """Paths that no file of a distribution may contain."""
    cargo = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    folders = {str(folder) for folder in (ROOT, Path.home(), cargo, sys.prefix, sys.base_prefix)}
    # "/usr" and the like stand in every program
    return [f"{folder}/".encode() for folder in sorted(folders) if folder not in ("/", "/usr", "/usr/local")]


def check_contents(distribution: Path) -> None:
    """Files that must and must not be there, and no path of this machine in any of them."""
    found = dict(members(distribution))
    wheel = distribution.suffix == ".whl"
    for wanted in WANTED_IN_WHEEL if wheel else WANTED_IN_SOURCES:
        if not any(name.endswith(wanted) for name in found):
            raise Failed(f"{distribution.name} lacks {wanted}")
    for name, content in found.items():
        if UNWANTED.search(name) or (not wheel and name.endswith(".so")):
            raise Failed(f"{distribution.name} has {name}, which does not belong there")
        for folder in folders_of_this_machine():
            if folder in content:
                raise Failed(f"{distribution.name}: {name} names the folder {folder.decode()} of this machine")
    print(f"contents: {len(found)} files, no path of this machine")


def check_platform(wheel: Path) -> None:
    """One wheel for all Pythons from 3.11 on; on Linux what it asks of the system is what its name says."""
    if "-cp311-abi3-" not in wheel.name:
        raise Failed(f"{wheel.name} is not for the stable interface of Python 3.11 and later (cp311-abi3)")
    if sys.platform != "linux":
        return
    shown = run([sys.executable, "-m", "auditwheel", "show", str(wheel)], dict(os.environ), ROOT)
    promised = re.search(r"manylinux_\d+_\d+_\w+", wheel.name)
    found = re.search(r'platform tag:\s*"(\w+)"', shown)
    if promised is None or found is None or promised.group() != found.group(1):
        raise Failed(f"{wheel.name} promises more than auditwheel finds: {' '.join(shown.split())}")
    print(f"platform: {found.group(1)}, as auditwheel finds")


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class EmptyEnvironment:
    """A virtual environment with nothing but pip; of the PATH it sees its own folder and `path`."""

    def __init__(self, folder: Path, python: str, path: str = "") -> None:
        self.folder = folder
        self.bin = folder / "bin"
        run([python, "-m", "venv", str(folder)], dict(os.environ), folder.parent)
        inherited = ("HOME", "LANG", "TMPDIR", "CARGO_HOME", "RUSTUP_HOME")
        self.variables = {name: os.environ[name] for name in inherited if name in os.environ}
        # how pip reaches its index is the machine's affair
        settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        self.variables |= {**settings, **proxies, "PATH": os.pathsep.join(filter(None, [str(self.bin), path]))}

    def run(self, *words: str, folder: Path) -> str:
        return run([str(self.bin / words[0]), *words[1:]], self.variables, folder)


def install_wheel(wheel: Path, folder: Path, python: str) -> EmptyEnvironment:
    """Downloads the wheel's dependencies as wheels, then installs without an index and without cargo."""
    environment = EmptyEnvironment(folder / "environment", python)
    for program in ("cargo", "rustc", "cc", "gcc"):
        if shutil.which(program, path=environment.variables["PATH"]):
            raise Failed(f"{program} is on the PATH of the empty environment")
    download = ("pip", "download", "--quiet", "--only-binary=:all:", "--dest", "wheelhouse", str(wheel))
    environment.run(*download, folder=folder)
    print(f"downloaded: {len(list((folder / 'wheelhouse').iterdir()))} wheels")
    environment.run("pip", "install", "--quiet", "--no-index", "--find-links", "wheelhouse", "kinema", folder=folder)
    return environment


def install_sources(sources: Path, folder: Path, python: str) -> EmptyEnvironment:
    """Builds and installs the source distribution; its dependencies come as wheels."""
    environment = EmptyEnvironment(folder / "environment", python, os.environ.get("PATH", ""))
    environment.run("pip", "install", "--quiet", str(sources), folder=folder)
    return environment


def check_installed(environment: EmptyEnvironment, folder: Path, version: str) -> None:
    """The command and the import, from a folder that is not the project's."""
    shutil.copy(TRAJECTORY, folder / "small.dcd")
    (folder / "small.ndx").write_text("[ some ]\n1 2 4 5\n")
    said = environment.run("kinema", "--version", folder=folder).strip()
    if said != f"kinema {version}":
        raise Failed(f"kinema --version, expected {version}, found {said}")
    words = "rmsd -n small.ndx --group some -f small.dcd -o rmsd.csv --quiet".split()
    environment.run("kinema", *words, folder=folder)
    rows = [row for row in (folder / "rmsd.csv").read_text().splitlines() if re.match(r"\d", row)]
    if len(rows) != 3 or abs(float(rows[0].split(",")[2])) > 1e-4 or not float(rows[1].split(",")[2]) > 0:
        raise Failed(f"kinema rmsd wrote these rows: {rows}")
    # -I: neither the folder nor PYTHONPATH helps to find the package
    if environment.run("python", "-I", "-c", CHECK_IMPORT, folder=folder).strip() != version:
        raise Failed("the imported package has another version than the wheel")
    environment.run("pip", "check", folder=folder)
    print(f"installed: kinema {version} runs from indices, is imported from another folder, pip check is content")


def smoke(distribution: Path, python: str) -> None:
    """All checks of one distribution."""
    wheel = distribution.suffix == ".whl"
    version = re.sub(r"\.tar\.gz$", "", distribution.name).split("-")[1]
    check_contents(distribution)
    if wheel:
        check_platform(distribution)
    with tempfile.TemporaryDirectory(prefix="kinema-smoke-") as name:
        folder = Path(name)
        install = install_wheel if wheel else install_sources
        check_installed(install(distribution, folder, python), folder, version)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distributions", nargs="+", type=Path, help="kinema-*.whl or kinema-*.tar.gz")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the empty environment")
    arguments = parser.parse_args()
    try:
        for distribution in arguments.distributions:
            print(distribution.name)
            smoke(distribution.resolve(), arguments.python)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
