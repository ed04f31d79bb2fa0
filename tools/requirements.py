"""Prints the requirements of pyproject.toml: build system, package and the extras named as arguments.

It does not install anything: `make setup` hands the list to pip, so dependencies need no build of Kinema.
"""

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """Requirement strings in the order of the file, without repetitions."""
    with pyproject.open("rb") as file:
        settings = tomllib.load(file)
    found = [*settings["build-system"]["requires"], *settings["project"]["dependencies"]]
    for extra in extras:
        found += settings["project"]["optional-dependencies"][extra]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    print("\n".join(requirements(Path(__file__).parent.parent / "pyproject.toml", sys.argv[1:])))
