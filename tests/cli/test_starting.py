"""Each command does a small piece of its work in a process of its own; the other tests call them in that of the tests.

Only a new process shows that a command imports what it needs, in an order that works.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.cli.app import COMMANDS, GROUPS
from kinema.cli.commands import cache, ml
from kinema.cli.in_process import call_kinema
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.h5md_files.building import plain_file

# what each is called with, in a folder of small files; DCD and PSF are real ones
LINES = {
    "info": "a.dcd",
    "rmsd": "a.dcd -o rmsd.csv",
    "rmsf": "a.dcd -o rmsf.csv",
    "average": "a.dcd -o average.csv",
    "rmsd-matrix": "a.dcd -o pairs.npy",
    "cluster": "a.dcd -o clusters.csv",
    "rgyr": "a.dcd --weights none -o rgyr.csv",
    "gyration": "a.dcd --weights none -o gyration.csv",
    "pca": "a.dcd -o pca.csv",
    "dccm": "a.dcd -o dccm.npy",
    "sasa": "-f DCD -s PSF --select 'resid 5' --stop 3 --no-stored -o sasa.csv",
    "buried-area": "-f DCD -s PSF --select 'resid 5' --other 'resid 6' --stop 3 --no-stored -o buried.csv",
    "dssp": "-f DCD -s PSF --stop 3 --no-stored -o dssp.csv",
    "centers": "a.dcd --weights none -o centers.npy",
    "distances": "a.dcd --pairs pairs.txt -o distances.csv",
    "end-to-end": "-f DCD -s PSF --stop 3 --no-stored -o ends.csv",
    "angles": "a.dcd --triples triples.txt -o angles.csv",
    "dihedrals": "a.dcd --quadruples quadruples.txt -o dihedrals.csv",
    "ramachandran": "-f DCD -s PSF --stop 3 --no-stored -o ramachandran.csv",
    "vectors": "a.dcd --weights none -o vectors.csv",
    "neighbors": "-f DCD -s PSF --select 'name CA' --cutoff 6 --stop 3 --no-stored -o neighbors.csv",
    "mindist": "-f DCD -s PSF --select 'resid 3' --other 'resid 9' --stop 3 --no-stored -o mindist.csv",
    "hbonds": "-f DCD -s PSF --stop 3 --no-stored -o hbonds.csv",
    "water-bridges": "-f DCD -s PSF --water-selection 'resname SER' --stop 3 --no-stored -o water.csv",
    "rdf-sites": "-f DCD -s PSF --ags 'bynum 3' --ags 'bynum 70' --norm none --stop 3 --no-stored -o s.csv",
    "rdf": "a.dcd --norm none -o rdf.csv",
    "coordination": "a.dcd --cutoff 12 -o coordination.csv",
    "count": "-f DCD -s PSF --select 'around 8 resid 56' --stop 3 --no-stored -o count.csv",
    "shells": "-f DCD -s PSF --select 'resid 56' --waters 'resname SER' --stop 3 --no-stored -o shells.csv",
    "native-contacts": "a.dcd --radius 30 --method radius_cut -o contacts.csv",
    "residue-contacts": "-f DCD -s PSF --stop 3 --no-stored -o residues.csv",
    "contact-map": "-f DCD -s PSF --stop 3 --no-stored -o map.npy",
    "residue-distances": "-f DCD -s PSF --stop 3 --no-stored --scheme ca -o distances_ca.csv",
    "salt-bridges": "-f DCD -s PSF --stop 3 --no-stored -o bridges.csv --occupancy occupancy.csv",
    "density-profile": "-f XTC -s GRO --quantity number --stop 2 --no-stored -o profile.csv",
    "structure-factor": "-f XTC -s GRO --select 'name CA' --kmax 1 --stop 2 --no-stored -o factor.csv",
    "density": "-f XTC -s GRO --select 'name CA' --delta 4 --stop 2 --no-stored -o density.csv",
    "summarise": "first.csv -o summary.csv",
    "histogram2d": "first.csv first.csv --temperature 300 --bins 4 -o surface.npz --plot surface.png",
    "run": "job.toml",
    "check": "a.dcd",
    "index": "a.xtc",
    "convert": "a.dcd -o b.xtc",
    "doctor": "--timeout 120",
    "repack": "a.h5md repacked.h5md",
    "split": "a.h5md --parts 2 -o part.h5md",
    "join": "a.h5md -o joined.h5md",
    "formats": "",
    "demo": "--help",
    "report": "run.json",
    "trace": "-o t -- true",
    "scaling": "-f a.dcd --runner threads --workers 1 --repeats 1 -o scaling",
    "bench-write": "--help",
    "cache fill": "a.dcd --node-cache cache",
    "cache stat": "--node-cache cache",
    "cache verify": "--node-cache cache",
    "cache clear": "--node-cache cache",
    "ml convert": "a.npz -o b.h5",
    "ml export": "a.dcd --output-format npz -o exported.npz",
    "ml statistics": "a.npz -o statistics.json",
    "ml catalogue": "make a.dcd -o a.kinema-catalogue",
    "ml bench": "--help",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 6 frames and 20 atoms, samples, lists of atoms, a job and the report of a run."""
    folder = tmp_path_factory.mktemp("files")
    frames = random_walk(6, 20)
    write_dcd(folder / "a.dcd", frames)
    write_xtc(folder / "a.xtc", frames)
    plain_file(folder / "a.h5md")
    np.savez(folder / "a.npz", x=frames)
    for name, atoms in (("pairs", "1 2"), ("triples", "1 2 3"), ("quadruples", "1 2 3 4")):
        (folder / f"{name}.txt").write_text(atoms)
    job = '[trajectory]\nfiles = "a.dcd"\n[[analysis]]\nname = "rmsd"\noutput = "job.csv"\n'
    (folder / "job.toml").write_text(job)
    assert call_kinema("rmsd", "a.dcd", "-o", "first.csv", "--report", "run.json", cwd=folder).returncode == 0
    assert call_kinema("cache", "fill", "a.xtc", "--node-cache", "cache", cwd=folder).returncode == 0
    return folder


def test_each_command_is_called() -> None:
    groups = {f"{group.__name__.rpartition('.')[2]} {name}" for group in (cache, ml) for name in group.COMMANDS}
    assert set(LINES) == {name for name in COMMANDS if name not in GROUPS} | groups


@pytest.mark.parametrize("command", LINES)
def test_it_starts(command: str, folder: Path, adk_dcd: Any, adk_xtc: Any, environment: dict[str, str]) -> None:
    real = {"DCD": adk_dcd.trajectory, "PSF": adk_dcd.topology, "XTC": adk_xtc.trajectory, "GRO": adk_xtc.topology}
    words = [real.get(word, word) for word in shlex.split(f"{command} {LINES[command]}")]
    done = subprocess.run(
        [sys.executable, "-m", "kinema", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr
