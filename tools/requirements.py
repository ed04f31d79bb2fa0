"""Prints the requirements of pyproject.toml: build system, package and the extras named as arguments.

It does not install anything: `make setup` hands the list to uv, so dependencies need no build of Kinema. With
`--oldest` each requirement that users have is pinned to the oldest version that it allows.
"""

import re
import sys
import tomllib
from pathlib import Path

# the extras for users, of which the tests need all but torch
EXTRAS_OF_USERS = ("parquet", "pandas", "cluster", "dask", "mpi-local")


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """Requirement strings in the order of the file, without repetitions."""
    with pyproject.open("rb") as file:
        settings = tomllib.load(file)
    found = [*settings["build-system"]["requires"], *settings["project"]["dependencies"]]
    for extra in extras:
        found += settings["project"]["optional-dependencies"][extra]
    return list(dict.fromkeys(found))


def oldest(pyproject: Path, extras: list[str]) -> list[str]:
    """The same, and those of the package and of its extras for users once more, pinned to their lower bounds."""
    with pyproject.open("rb") as file:
        project = tomllib.load(file)["project"]
    of_users = [
        *project["dependencies"],
        *(one for extra in EXTRAS_OF_USERS for one in project["optional-dependencies"][extra]),
    ]
    pins = [re.sub(r">=([\w.]+)(,<[\w.]+)?", r"==\1", one) for one in of_users]
    return list(dict.fromkeys([*requirements(pyproject, extras), *pins]))


if __name__ == "__main__":
    words = sys.argv[1:]
    listed = oldest if "--oldest" in words else requirements
    found = listed(Path(__file__).parent.parent / "pyproject.toml", [word for word in words if word != "--oldest"])
    print("\n".join(found))
