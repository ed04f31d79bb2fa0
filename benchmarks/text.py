"""Text of numbers: parsing, formatting beside gfortran's, counting lines, the scan of a trajectory; MB/s of text.

The figures are those of an example of the core, which measures on one thread (the scan on one and two), and of
fortran_records.f90, compiled with gfortran if that is installed; both write the same records in one run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDS = 200_000
PEERS = ("fast-float2", "lexical-core", "standard library")
OURS, GOAL = "parse: container::text::parse_three", 500.0


def text(bench: Any) -> None:
    """A row for each figure, and how many times gfortran's speed is reached."""
    words = ["cargo", "build", "--release", "--quiet", "--package", "kinema-core", "--example", "text_speed"]
    subprocess.run([*words, "--target-dir", str(HERE.parent / "target")], cwd=HERE.parent, check=True)
    program, tries = str(HERE.parent / "target/release/examples/text_speed"), str(bench.tries)
    done = subprocess.run([program, str(RECORDS), tries], capture_output=True, text=True, check=True)
    found = {name.strip(): float(figure) for name, figure in re.findall(r"(.*?) +(\d+) MB/s", done.stdout)}
    for name, figure in found.items():
        goal = {"goal": GOAL, "reached": figure >= GOAL} if name == OURS else {}
        program_of = next((peer for peer in PEERS if peer in name), "kinema")
        bench.record(f"text, {name}", "", program_of, figure=figure, unit="MB/s", **goal)
    peer = gfortran(program, tries)
    if peer is None:
        print("gfortran is left out: it is not installed")
        return
    case = "text, format: 3g20.10"
    bench.record(case, "", "gfortran", figure=peer, unit="MB/s")
    bench.record(case, "", "kinema/gfortran", figure=found["format: put_g20_10, records"] / peer, unit="ratio")


def gfortran(program: str, tries: str) -> float | None:
    """MB/s of gfortran's formatted output of the same values; None if there is no gfortran."""
    if shutil.which("gfortran") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        values, compiled = f"{folder}/values", f"{folder}/fortran_records"
        subprocess.run([program, "--bits", values, str(RECORDS)], check=True)
        subprocess.run(["gfortran", "-O2", "-o", compiled, str(HERE / "fortran_records.f90")], check=True)
        done = subprocess.run([compiled, values, tries], capture_output=True, text=True, check=True)
    return float(done.stdout)
