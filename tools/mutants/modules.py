"""Modules that faults are planted in, and the tests that can see them: tests/mutants/tests.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "mutants"
LANGUAGES = ("python", "rust")


@dataclass(frozen=True)
class Module:
    """One entry of the table.

    Attributes
    ----------
    name, language : str
    files : list of str
        Files and folders that faults are planted in.
    tests : list of str
        Files and folders of tests for pytest, those first that take little time.
    cargo : list of str
        Of Rust: the tests for `cargo test`, in this order; then come `tests`, with an extension that is built for it.
    """

    name: str
    language: str
    files: list[str]
    tests: list[str]
    cargo: list[str]


def modules(language: str) -> list[Module]:
    """Those of one language."""
    with (FOLDER / "tests.toml").open("rb") as file:
        table = tomllib.load(file)
    return [
        Module(name, language, entry["files"], entry["tests"], entry.get("cargo", []))
        for name, entry in table[language].items()
    ]
