"""The page of pictures: one of each analysis, drawn by its command from a real trajectory.

A picture is kept in dist/gallery, and drawn again when the command or the code of the package has changed.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from MDAnalysisTests import datafiles

from kinema.analysis.registry import ANALYSES
from kinema.cli.in_process import call_kinema

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "dist" / "gallery"
# options of each analysis; the files come before them
OPTIONS = {
    "rmsd": '--select "protein and name CA" --rmsd-select "resid 122-161"',
    "rmsf": '--select "name CA" --align average',
    "average": '--select "name CA" --align average',
    "rgyr": "--select protein",
    "gyration": "--select protein",
    "rmsd-matrix": '--select "name CA"',
    "cluster": '--select "name CA" --method average --n-clusters 5',
    "dssp": "",
    "sasa": "--select protein --polar",
    "buried-area": '--select "resid 1-29 or resid 60-121" --other "resid 122-161"',
    "pca": '--select "name CA" --align average --projections 3',
    "dccm": '--select "name CA" --align average',
    "centers": '--select "resid 122-161"',
    "distances": '--ag1 "name CA and resid 56" --ag2 "name CA and resid 169"',
    "end-to-end": '--select "name CA"',
    "angles": '--ag1 "name CA and resid 90" --ag2 "name CA and resid 115" --ag3 "name CA and resid 35"',
    "dihedrals": '--phi --psi --select "resid 50-52"',
    "ramachandran": "--select protein",
    "vectors": '--axis "name CA and resid 13-24" --axis "name CA and resid 115-120"',
    "neighbors": '--select "name CA" --cutoff 6',
    "mindist": '--select "resid 30-59" --other "resid 122-161"',
    "hbonds": "",
    "water-bridges": '--water-selection "resname SER" --selection2 "protein and not resname SER"',
    "rdf-sites": '--ags "name CA and resid 56" --ags "name CA and resid 169-171" --range 5 40 --norm none',
    "rdf": '--select "name OW" --range 0 10',
    "coordination": '--select "name CA" --cutoff 8',
    "count": '--select "name CA and around 8 resid 56"',
    "shells": '--select "protein and resid 50-59" --waters "resname SOL"',
    "native-contacts": '--select "name CA" --method soft_cut --radius 8 --min-separation 4',
    "residue-contacts": "",
    "contact-map": "--scheme ca --cutoff 8",
    "residue-distances": '--select "resid 122-140" --scheme ca',
    "salt-bridges": "",
    "density-profile": "",
    "structure-factor": '--select "name OW" --kmax 4',
    "density": '--select "name CA"',
}

# of these the first trajectory has no cells: ten frames of the same protein in water
SOLVATED = {"rdf", "shells", "density-profile", "structure-factor"}
FILES = {
    "adk.psf": datafiles.PSF,
    "adk.dcd": datafiles.DCD,
    "adk_water.tpr": datafiles.TPR,
    "adk_water.xtc": datafiles.XTC,
}


def gallery() -> tuple[str, dict[str, bytes]]:
    """The page, and its pictures by name.

    Raises RuntimeError if a command fails, KeyError if an analysis has no options or no formula.
    """
    lines = [
        "# Gallery",
        "",
        "Each picture comes from the line above it: adenylate kinase, 98 frames, or 10 in water.",
        "",
    ]
    pictures = {}
    code = _digest_of_code()
    for name in ANALYSES:
        files = "-s adk_water.tpr -f adk_water.xtc" if name in SOLVATED else "-s adk.psf -f adk.dcd"
        command = f"kinema {name} {files} {OPTIONS[name]} --plot {name}.png"
        pictures[f"gallery/{name}.png"] = _picture(name, command, code)
        lines += [f"## {name}", "", ANALYSES[name].summary, "", "```text", formula(name), "```", ""]
        lines += [f"[Units, source and options](analyses.md#{name})", ""]
        lines += ["```", command, "```", "", f"![{name}](gallery/{name}.png)", ""]
    return "\n".join(lines), pictures


def formula(name: str) -> str:
    """The formula in the docstring of the module: its indented lines. Raises KeyError if there is none."""
    found = re.search(r"\n\n((?:    .+\n)+)", sys.modules[ANALYSES[name].__module__].__doc__ or "")
    if found is None:
        raise KeyError(f"{name}: the module's docstring has no formula")
    return inspect.cleandoc(found[1])


def _digest_of_code() -> bytes:
    digest = hashlib.sha256()
    for file in sorted((ROOT / "python" / "kinema").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _picture(name: str, command: str, code: bytes) -> bytes:
    kept = KEPT / f"{name}-{hashlib.sha256(code + command.encode()).hexdigest()[:16]}.png"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in KEPT.glob(f"{name}-{'[0-9a-f]' * 16}.png"):
            old.unlink()
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            for file, source in FILES.items():
                if file in command:
                    shutil.copy(source, here / file)
            done = call_kinema(*shlex.split(command)[1:], cwd=here)
            if done.returncode:
                raise RuntimeError(f"{command}: {done.stderr}")
            shutil.copy(here / f"{name}.png", kept)
    return kept.read_bytes()
