"""Makes the environment of `make test-hdf5-mpi`: Debian's Open MPI and HDF5, an h5py that is built on them.

It neither builds nor tests Kinema. No wheel of h5py has a parallel HDF5, hence the environment of its own. Packages of
Debian are installed only where that needs no password; otherwise it says what to do.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from requirements import requirements

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("openmpi-bin", "libopenmpi-dev", "libhdf5-openmpi-dev", "pkg-config")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")
# to build h5py, without build isolation: with it, mpi4py would be compiled again, which takes twelve minutes
BUILD = ("cython>=3.1", "pkgconfig", "setuptools>=77", "wheel", "packaging", "numpy>=2", "mpi4py>=4")
BUILD_OPTIONS = {
    "CC": "mpicc.openmpi",
    "HDF5_MPI": "ON",
    "HDF5_PKGCONFIG_NAME": "hdf5-openmpi",
    "CFLAGS": "-O1 -g0",
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the virtual environment")
    folder: Path = parser.parse_args().folder
    install_packages()
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install"]
    run([*pip, *BUILD])
    h5py = next(one for one in requirements(ROOT / "pyproject.toml", []) if one.startswith("h5py"))
    run([*pip, "--no-build-isolation", "--no-binary=h5py", "--no-cache-dir", h5py], **BUILD_OPTIONS)
    wanted = requirements(ROOT / "pyproject.toml", ["hdf5-mpi", "test-hdf5-mpi"])
    run([*pip, *(one for one in wanted if not one.startswith("maturin"))])
    # the launcher that belongs to this library is found first, whatever other MPI there is
    launcher = shutil.which("mpiexec.openmpi")
    if launcher is None:
        sys.exit("error: openmpi-bin is installed, but there is no mpiexec.openmpi")
    (folder / "bin/mpiexec").symlink_to(launcher)
    check = "import h5py, sys; sys.exit(not h5py.get_config().mpi and 'error: h5py was built without MPI')"
    run([str(folder / "bin/python"), "-c", check])


def install_packages() -> None:
    """Installs missing PACKAGES; if this user may not, ends with the command to type."""
    if shutil.which("dpkg-query") is None:
        sys.exit(f"error: these tests need Debian's packages {', '.join(PACKAGES)}, and this is no Debian")
    missing = [name for name in PACKAGES if not is_installed(name)]
    if not missing:
        return
    if os.geteuid() != 0:
        sys.exit(f"error: packages are missing; run: sudo {' '.join([*INSTALL, *missing])}")
    run(["apt-get", "update", "-q"])
    run([*INSTALL, *missing], DEBIAN_FRONTEND="noninteractive")


def is_installed(name: str) -> bool:
    """Whether Debian's package of that name is there."""
    found = subprocess.run(["dpkg-query", "-W", "-f=${Status}", name], capture_output=True, text=True)
    return found.stdout == "install ok installed"


def run(words: list[str], **more: str) -> None:
    """Runs a command with more in its environment, and exits if it fails."""
    found = subprocess.run(words, env={**os.environ, **more})
    if found.returncode != 0:
        sys.exit(f"error: {' '.join(words)} has failed")


if __name__ == "__main__":
    main()
