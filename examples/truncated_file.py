"""A file that was cut in the middle of a frame: found, read as far as it goes, and repaired."""

import sys
import warnings
from pathlib import Path

import kinema as kn

trajectory = sys.argv[2]
cut = Path(f"cut{Path(trajectory).suffix}")
whole = Path(trajectory).read_bytes()
cut.write_bytes(whole[: len(whole) // 2])  # what a full disk leaves

for problem in kn.check(cut).problems:
    print("problem:", problem)

with warnings.catch_warnings(record=True):  # a note says the same
    warnings.simplefilter("always")
    print(f"{kn.open(cut).n_frames} whole frames of {kn.open(trajectory).n_frames}")

# on_truncated="error" refuses such a file
try:
    kn.open(cut, on_truncated="error").scan()
except kn.TruncatedFileError as error:
    print("refused:", error)
