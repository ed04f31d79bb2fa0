"""Writes docs/formats.md from the registry of formats. It changes nothing else."""

from pathlib import Path

from kinema.formats.page import formats_page

if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs/formats.md").write_text(formats_page(), encoding="utf-8")
