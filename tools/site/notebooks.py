"""Runs the notebooks of `notebooks/` and turns them into pages of the site.

They are kept without outputs. One that has not changed is not run again: its page lies in dist/notebooks.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from MDAnalysisTests import datafiles
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "dist" / "notebooks"
SECONDS = 120


def page_of(notebook: Path) -> str:
    """The page of a notebook: its text, its code and what the code shows. Raises CellExecutionError if a cell fails."""
    text = notebook.read_text(encoding="utf-8")
    source = hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()
    kept = KEPT / f"{notebook.stem}-{source[:16]}.md"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    cells = nbformat.reads(text, as_version=4)
    if any(cell.get("outputs") for cell in cells.cells):
        raise ValueError(f"{notebook}: has outputs; clear them before it is committed")
    with tempfile.TemporaryDirectory() as folder:
        for file in (datafiles.DCD, datafiles.PSF):
            shutil.copy(file, folder)
        # MDAnalysis' tqdm misses a package that shows bars of its own
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore:IProgress not found"}
        client = NotebookClient(cells, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    page = "\n\n".join(_cell(cell) for cell in cells.cells)
    kept.parent.mkdir(parents=True, exist_ok=True)
    for old in KEPT.glob(f"{notebook.stem}-*.md"):
        old.unlink()
    kept.write_text(page, encoding="utf-8")
    return page


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    shown = [one for output in cell.outputs if (one := _output(output))]
    return "\n\n".join([f"```python\n{cell.source}\n```", *shown])


def _output(output: Any) -> str:
    """One output: a picture, a table, or text. Notes on stderr are shown as text too."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if "image/png" in data:
        # decoded once, so that anything but a picture fails here
        picture = base64.b64encode(base64.b64decode(data["image/png"])).decode()
        return f'<img alt="what the code draws" src="data:image/png;base64,{picture}">'
    if data.get("text/html"):
        return str(data["text/html"])
    return f"```text\n{data['text/plain']}\n```" if data.get("text/plain") else ""
