"""Prints the folder with the data files of the installed package MDAnalysisTests, without importing it."""

import sys
from importlib.util import find_spec
from pathlib import Path

spec = find_spec("MDAnalysisTests")
if spec is None or spec.origin is None:
    sys.exit("error: MDAnalysisTests is not installed; run: make setup")
print(Path(spec.origin).parent / "data")
