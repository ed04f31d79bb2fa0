"""Writes fortran/fields.txt.gz: what gfortran's formatted output makes of 100,000 values (`make golden-fortran`).

Needs gfortran. The values are made by number, by tests/common/fortran_values.rs, and are not stored; the file has one
field a line. `--compare N --seed S` writes nothing: it compares Kinema's output for N other values.
"""

import argparse
import gzip
import subprocess
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent / "fortran"
ROOT = DATA.parents[4]
N_GOLDEN, GOLDEN_SEED = 100_000, 1


def build(folder: Path) -> tuple[Path, Path]:
    """The programs that make the values and that write them with gfortran."""
    fortran = folder / "fortran_formats"
    subprocess.run(["gfortran", "-O2", "-o", fortran, DATA / "fortran_formats.f90"], check=True)
    example = ["cargo", "build", "--release", "--quiet", "--package", "kinema-core", "--example", "fortran_values"]
    subprocess.run([*example, "--target-dir", ROOT / "target"], check=True, cwd=ROOT)
    return ROOT / "target/release/examples/fortran_values", fortran


def main() -> None:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=int, metavar="N", help="compare N values, write nothing")
    parser.add_argument("--seed", type=int, default=GOLDEN_SEED + 1, help="which values to compare")
    options = parser.parse_args()
    n, seed = (options.compare, options.seed) if options.compare else (N_GOLDEN, GOLDEN_SEED)
    with tempfile.TemporaryDirectory() as folder:
        values, fortran = build(Path(folder))
        text = Path(folder) / "fields.txt"
        with text.open("wb") as file, subprocess.Popen([values, "write", f"{n}", f"{seed}"], stdout=subprocess.PIPE) as made:
            subprocess.run([fortran], stdin=made.stdout, stdout=file, check=True)
        if not options.compare:
            # without a name and a time: the same values give the same file
            (DATA / "fields.txt.gz").write_bytes(gzip.compress(text.read_bytes(), mtime=0))
        with text.open("rb") as file:
            subprocess.run([values, "compare", f"{n}", f"{seed}"], stdin=file, check=True)


if __name__ == "__main__":
    main()
