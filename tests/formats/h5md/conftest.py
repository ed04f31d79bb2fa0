"""Conformance files that several tests read, and none changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kinema.testing.h5md_files import ConformanceFile, Expected

Conformance = Callable[[ConformanceFile, Path], tuple[Path, Expected]]


@pytest.fixture(scope="session")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> Conformance:
    """Path of a conformance file, and what it holds: written once a session, not to be changed.

    One that needs files beside it is written into the folder that is given, as what is made of it there needs them too.
    """
    made: dict[str, tuple[Path, Expected]] = {}

    def make(case: ConformanceFile, folder: Path) -> tuple[Path, Expected]:
        if case.name not in made:
            path = tmp_path_factory.mktemp(case.name) / "in.h5md"
            made[case.name] = path, case.write(path)
        path, expected = made[case.name]
        if len(list(path.parent.iterdir())) > 1:
            path = folder / path.name
            return path, case.write(path)
        return path, expected

    return make
