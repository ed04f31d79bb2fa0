"""Checks that slow tests of the last run are listed in tests/slow.toml, each with a reason.

A test is slow if it took more than 30 s, and more than 1.2 % of the seconds of all tests: in a whole run 30 s on a
machine that does nothing else, and more on a slower or busy one. Times are in pytest's cache (tests/conftest.py).
Without a run there is nothing to check.
"""

import json
import sys
import tomllib
from pathlib import Path

# of the seconds of all tests
SHARE = 0.012


def check(root: Path) -> list[str]:
    """A line for each slow test without a reason, and for each reason without a test file."""
    listed: dict[str, str] = tomllib.loads((root / "tests/slow.toml").read_text())
    cache = root / ".pytest_cache/v/kinema"
    took: dict[str, float] = json.loads((cache / "slow").read_text()) if (cache / "slow").exists() else {}
    limit = SHARE * (json.loads((cache / "seconds").read_text()) if (cache / "seconds").exists() else 0.0)
    return [
        *(
            f"{test} took {seconds} s: make it faster, or give the reason in tests/slow.toml"
            for test, seconds in took.items()
            if seconds > limit and test.partition("[")[0] not in listed
        ),
        *(f"tests/slow.toml: {test}: no such file" for test in listed if not (root / test.partition("::")[0]).exists()),
    ]


if __name__ == "__main__":
    complaints = check(Path(__file__).resolve().parents[1])
    print("\n".join(complaints), end="\n" if complaints else "")
    sys.exit(bool(complaints))
