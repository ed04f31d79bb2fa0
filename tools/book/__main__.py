"""`make book`: redoes the publications' figures and tables, and writes docs/figures.md with its pictures.

Finished experiments stay in --folder, and a later call continues from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from book.items import ENVIRONMENTS, read_plan
from book.page import write_page
from book.running import Runs, run_command

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    plan = read_plan()
    parser = argparse.ArgumentParser(prog="make book", description="the publications' figures and tables, redone")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist" / "book", help="folder of data and experiments")
    parser.add_argument("--size", choices=list(plan.sizes), default="small")
    parser.add_argument("--only", default="", help="items whose names have this, such as 2021-fig; writes no page")
    asked = parser.parse_args()
    began = time.monotonic()
    folder = asked.folder / asked.size
    page, pictures = ROOT / "docs" / "figures.md", ROOT / "docs" / "figures"
    if asked.only:
        plan = replace(plan, items=[item for item in plan.items if asked.only in item.key])
        page, pictures = folder / "figures.md", folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: ROOT / f".venv-{name}" / "bin" / "python" for name in ENVIRONMENTS}
    environments = {name: partial(run_command, python=str(path)) for name, path in found.items() if path.exists()}
    runs = Runs(plan, folder, asked.size, run_command, _notify, environments)
    n_failed = write_page(plan, runs, page, pictures, asked.size, _notify)
    _notify(f"{page}: {len(plan.items)} items, {n_failed} gaps, {time.monotonic() - began:.0f} s")
    return 1 if n_failed else 0


def _notify(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
