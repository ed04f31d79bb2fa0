"""Modules that faults are planted in, and the tests that can see them: tests/mutants/tests.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
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
    alone, together : list of str
        Tests that each fault meets by itself, and those that the survivors of these meet all at once: files and folders
        for pytest, the words after `cargo test` for cargo.
    python_alone, python_together : list of str
        Rust only: tests for pytest, run after the tests of cargo with an extension that has the faults.
    """

    name: str
    language: str
    files: list[str]
    alone: list[str]
    together: list[str]
    python_alone: list[str] = field(default_factory=list)
    python_together: list[str] = field(default_factory=list)


def modules(language: str) -> list[Module]:
    """Modules of one language."""
    with (FOLDER / "tests.toml").open("rb") as file:
        table = tomllib.load(file)
    return [Module(name, language, **entry) for name, entry in table[language].items()]
