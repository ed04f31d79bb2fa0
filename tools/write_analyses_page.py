"""Writes docs/analyses.md from what the registered analyses declare. It changes nothing else."""

from pathlib import Path

from kinema.analysis.page import analyses_page

if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs/analyses.md").write_text(analyses_page(), encoding="utf-8")
