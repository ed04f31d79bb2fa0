"""Checks that tests of the last run that took more than 30 s are listed in tests/slow.toml, each with a reason.

Their times are in pytest's cache (tests/conftest.py). Without a run there is nothing to check.
"""

import json
import sys
import tomllib
from pathlib import Path


def check(root: Path) -> list[str]:
    """A line for each slow test without a reason, and for each reason without a test file."""
    listed: dict[str, str] = tomllib.loads((root / "tests/slow.toml").read_text())
    kept = root / ".pytest_cache/v/kinema/slow"
    took: dict[str, float] = json.loads(kept.read_text()) if kept.exists() else {}
    return [
        *(
            f"{test} took {seconds} s: make it faster, or give the reason in tests/slow.toml"
            for test, seconds in took.items()
            if test.partition("[")[0] not in listed
        ),
        *(f"tests/slow.toml: {test}: no such file" for test in listed if not (root / test.partition("::")[0]).exists()),
    ]


if __name__ == "__main__":
    complaints = check(Path(__file__).resolve().parents[1])
    print("\n".join(complaints), end="\n" if complaints else "")
    sys.exit(bool(complaints))
