"""Reports name the machine, libraries and storage of a run, and runs that differ in them are not compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.base.timings import PassTimings, Timings, WorkerTimings
from kinema.report import Report, scaling_of, storage_facts
from kinema.report.machine import machine_facts

LUSTRE = """#!/bin/sh
[ "$1 $2 $3" = "getstripe -c -S" ] || exit 1
printf 'lmm_stripe_count:  4\\nlmm_stripe_size:   1048576\\n'
"""
BEEGFS = """#!/bin/sh
[ "$1" = "--getentryinfo" ] || exit 1
printf 'Entry type: file\\nStripe pattern details:\\n+ Type: RAID0\\n+ Chunksize: 512K\\n'
printf '+ Number of storage targets: desired: 4; actual: 2\\n'
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with three mounts, and stand-ins of the programs of its file systems; the folder of the programs."""
    table = tmp_path / "mountinfo"
    lines = [
        f"30 1 0:40 / {tmp_path}/lustre rw,flock shared:1 - lustre 10.0.0.1@tcp:/scratch rw,lazystatfs",
        f"31 1 0:41 / {tmp_path}/bee\\040gfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/b.conf",
        f"32 1 8:1 / {tmp_path}/disk rw,relatime - ext4 /dev/sda1 rw",
    ]
    table.write_text("\n".join(lines))
    disk = tmp_path / "devices/sda"
    for folder in (disk / "queue", disk / "sda1", tmp_path / "block"):
        folder.mkdir(parents=True)
    (disk / "queue/rotational").write_text("1\n")
    (disk / "sda1/partition").write_text("1\n")
    (tmp_path / "block/8:1").symlink_to(disk / "sda1")
    monkeypatch.setattr(storage_facts, "_MOUNTS", table)
    monkeypatch.setattr(storage_facts, "_BLOCK_DEVICES", tmp_path / "block")
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    for name, text in (("lfs", LUSTRE), ("beegfs-ctl", BEEGFS)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs


def test_where_files_lie(system: Path, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{folder}/a.xtc" for folder in ("lustre", "bee gfs", "disk")]
    assert storage_facts.storage_facts(paths) == [
        {"file_system": "beegfs on beegfs_nodev", "options": "rw,cfgFile=/etc/b.conf", "stripes": ["2 x 524288 bytes"]},
        {"file_system": "ext4 on /dev/sda1", "options": "rw,relatime", "disk": "hdd"},
        {
            "file_system": "lustre on 10.0.0.1@tcp:/scratch", "options": "rw,flock,lazystatfs",
            "stripes": ["4 x 1048576 bytes"],
        },
    ]  # fmt: skip


def test_programs_that_fail_or_hang_say_nothing(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_facts, "_SECONDS", 0.2)
    path = f"{tmp_path}/lustre/a.xtc"
    for text in ("#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec sleep 600\n", "#!/bin/sh\necho nonsense\n", "no program"):
        (system / "lfs").write_text(text)
        assert "stripes" not in storage_facts.storage_facts([path])[0]
    (system / "lfs").unlink()
    monkeypatch.setenv("PATH", str(system))
    assert "stripes" not in storage_facts.storage_facts([path])[0]


def test_libraries_are_looked_up_and_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mpi4py.MPI", "h5py"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    found = machine_facts()
    assert not {name.partition(".")[0] for name in set(sys.modules) - before} & {"h5py", "mpi4py", "dask", "MDAnalysis"}
    assert found["h5py"] == metadata.version("h5py") and "hdf5" not in found and "mpi" not in found
    assert isinstance(found["load"], float) and "job" not in found
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "comet")
    found = machine_facts()
    assert (found["job"], found["cluster"]) == ("4711", "comet")


def test_what_a_process_has_loaded_is_named() -> None:
    import h5py

    mpi = "with" if h5py.get_config().mpi else "without"
    assert machine_facts()["hdf5"] == f"{h5py.version.hdf5_version}, {mpi} MPI"


# -- what makes runs incomparable -------------------------------------------------------------------------------------


def made_up(machine: dict[str, Any], storage: tuple[Any, ...] = (), nodes: tuple[str, ...] = ("",)) -> Report:
    workers = tuple(
        WorkerTimings(number, 0.0, 0.0, 1.0, 1.0, 0.0, 2.0, 2.0, 10, 1, 1, 1, node=node)
        for number, node in enumerate(nodes)
    )
    timings = Timings((PassTimings(2.0, 10, workers, np.empty((0, 7))),), runner="mpi")
    return Report(machine, {"format": "XTC", "storage": storage}, {}, timings, (), (), ())


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("mpi", ("Open MPI v4.1.4, package: x", "MPICH 4.2"), {"MPI Open MPI v4.1.4", "MPI MPICH 4.2"}),
        ("hdf5", ("1.14.2, with MPI", "1.14.2, without MPI"), {"hdf5 1.14.2, with MPI", "hdf5 1.14.2, without MPI"}),
        ("dask", ("2025.1", "2026.1"), {"dask 2025.1", "dask 2026.1"}),
        ("load", (0.1, 40.0), set()),
    ],
)  # fmt: skip
def test_libraries_are_in_the_key_of_a_series_and_load_is_not(name: str, values: Any, words: set[str]) -> None:
    reports = [made_up({"host": "a", name: value}) for value in values]
    assert set(scaling_of(reports).series) == ({f"mpi, XTC, {one}" for one in words} or {"mpi, XTC"})
    # a name of the machine does not make them one
    assert len(scaling_of(reports, labels=["A", "A"]).series) == max(1, len(words))


def test_stripes_and_nodes_are_in_the_key_of_a_series() -> None:
    wide, narrow = ({"file_system": "lustre on x", "options": "rw", "stripes": [f"{n} x 1 bytes"]} for n in (48, 1))
    assert set(scaling_of([made_up({}, (wide,)), made_up({}, (narrow,))]).series) == {
        "mpi, XTC, rw, stripes 48 x 1 bytes", "mpi, XTC, rw, stripes 1 x 1 bytes",
    }  # fmt: skip
    one, two = made_up({}, nodes=("a", "a")), made_up({}, nodes=("a", "b"))
    assert set(scaling_of([one, two]).series) == {"mpi, XTC, on 1 node", "mpi, XTC, on 2 nodes"}
    # more workers on more nodes are one series
    four = made_up({}, nodes=("a", "a", "b", "b"))
    assert set(scaling_of([one, four]).series) == {"mpi, XTC"}


def test_nodes_of_a_batch_system_are_one_machine_if_they_are_alike() -> None:
    node = {"processor": "p", "cores": 24}
    first, second = made_up(node | {"host": "n1", "job": "1"}), made_up(node | {"host": "n2", "job": "2"})
    assert set(scaling_of([first, second]).series) == {"mpi, XTC"}
    other = replace(second, machine=node | {"host": "n2", "job": "2", "cores": 28})
    assert set(scaling_of([first, other]).series) == {"mpi, XTC, p", "mpi, XTC, p #2"}
