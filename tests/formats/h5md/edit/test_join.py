"""`kn.join`: one file of several, by reference or copied; what does not fit together is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.amounts import each
from kinema.testing.h5md_files import ConformanceFile

from .files import compare_objects, compare_trajectories, cut_cases, make_h5md, make_rich, walk
from .test_split import dcd_with_fixed_atoms

pytestmark = pytest.mark.usefixtures("nobody_changes_files")


def make_parts(folder: Path, overlap: int = 0, **options: Any) -> tuple[list[Path], np.ndarray[Any, Any]]:
    """Two files of 12 and 10 frames; the second begins `overlap` frames early, with other coordinates there."""
    values = walk(22, 20)
    make_h5md(folder / "a.h5md", values=values[:12], **options)
    again = values[12 - overlap :].copy()
    again[:overlap] += 1
    make_h5md(folder / "b.h5md", values=again, first_frame=12 - overlap, **options)
    return [folder / "a.h5md", folder / "b.h5md"], values


@pytest.mark.parametrize(("case", "copy"), each(cut_cases(), (False, True)), ids=str)
def test_what_was_split_is_joined(conformance: Any, tmp_path: Path, case: ConformanceFile, copy: bool) -> None:
    source, expected = conformance(case, tmp_path)
    options = expected.options
    known = {name: options[name] for name in ("root", "particles", "units") if name in options}
    axis = {"axis": options["axis"]} if "axis" in options else {}
    length = max(3, kn.open(source, stored=False, **options).n_frames // 4)
    parts = kn.split(source, tmp_path / "parts", frames_per_part=length, **known, **axis).paths
    kn.join(parts, tmp_path / "out.h5md", copy=copy, **known)
    compare_trajectories(source, tmp_path / "out.h5md", **options)


@pytest.mark.parametrize("copy", [False, True])
def test_everything_is_there_again(tmp_path: Path, copy: bool) -> None:
    make_rich(tmp_path / "in.h5md")
    parts = kn.split(tmp_path / "in.h5md", tmp_path / "parts", frames_per_part=5).paths
    (tmp_path / "there").mkdir()
    # the parts refer to a file beside the one that was split
    with pytest.raises(kn.ArgumentError, match=r'external link /extra/elsewhere leads to .*external="any"'):
        kn.join(parts, tmp_path / "there/out.h5md", copy=copy)
    kn.join(parts, tmp_path / "there/out.h5md", copy=copy, external="any")
    with h5py.File(tmp_path / "in.h5md") as old, h5py.File(tmp_path / "there/out.h5md") as new:
        assert new["extra/elsewhere"][()] == 42
        del_elsewhere = [file["extra"].get("elsewhere", getlink=True) for file in (old, new)]
        assert all(isinstance(link, h5py.ExternalLink) for link in del_elsewhere)
        compare_objects(old, new)


def test_by_reference_it_is_small_and_holds_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    parts, values = make_parts(tmp_path / "data", n_frames=0)
    done = kn.join(parts, tmp_path / "whole.h5md")
    assert done.refers_to == tuple(map(str, parts))
    shutil.move(tmp_path / "data", tmp_path / "moved-data")
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "whole.h5md", tmp_path / "moved/whole.h5md")
    shutil.move(tmp_path / "moved-data", tmp_path / "moved/data")
    monkeypatch.chdir("/")
    with h5py.File(tmp_path / "moved/whole.h5md") as file:
        value = file["particles/all/position/value"]
        assert value.is_virtual
        np.testing.assert_array_equal(value[()], values)
        assert [source.file_name for source in value.virtual_sources()] == ["data/a.h5md", "data/b.h5md"]
    traj = kn.open(tmp_path / "moved/whole.h5md", stored=False)
    assert traj.read().tobytes() == values.tobytes()
    assert not traj.parts[0].warnings  # nothing through h5py


def test_mdanalysis_reads_it(tmp_path: Path) -> None:
    import MDAnalysis

    parts, values = make_parts(tmp_path)
    kn.join(parts, tmp_path / "whole.h5md")
    with h5py.File(tmp_path / "whole.h5md", "a") as file:
        # MDAnalysis takes only strings of variable length
        for name in ("position/value", "position/time", "box/edges/value"):
            node = file["particles/all"][name]
            node.attrs["unit"] = node.attrs["unit"].decode()
        file["particles/all/box"].attrs["boundary"] = ["periodic"] * 3
        file["h5md/author"].attrs["name"] = "A. Uthor"
        file["h5md/creator"].attrs["name"] = "a test"
    universe = MDAnalysis.Universe.empty(20, trajectory=True)
    universe.load_new(str(tmp_path / "whole.h5md"))
    found = np.array([ts.positions.copy() for ts in universe.trajectory])
    np.testing.assert_array_equal(found, values)


def test_a_missing_part_raises(tmp_path: Path) -> None:
    parts, _ = make_parts(tmp_path)
    kn.join(parts, tmp_path / "whole.h5md")
    parts[1].unlink()
    with pytest.raises(kn.FileNotFound, match=r"b\.h5md is missing"):
        kn.open(tmp_path / "whole.h5md", stored=False).read()
    with pytest.raises(kn.FileNotFound):
        kn.join(parts, tmp_path / "again.h5md")
    assert not (tmp_path / "again.h5md").exists()


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("overlap", ["first", "last"])
def test_overlaps(tmp_path: Path, overlap: str, copy: bool) -> None:
    parts, _ = make_parts(tmp_path, overlap=4)
    kn.join(parts, tmp_path / "whole.h5md", overlap=overlap, copy=copy)
    one = kn.open(parts, overlap=overlap, stored=False)
    other = kn.open(tmp_path / "whole.h5md", stored=False)
    assert one.read().tobytes() == other.read().tobytes()
    np.testing.assert_array_equal(one.steps, other.steps)
    with h5py.File(tmp_path / "whole.h5md") as file:
        assert file["particles/all/box/edges/value"].shape[0] == 22
    with pytest.raises(kn.ArgumentError, match="may not fall"):
        kn.join(parts, tmp_path / "all.h5md", overlap="all", copy=copy)
    assert not (tmp_path / "all.h5md").exists()


def test_a_copy_has_the_compression_of_the_first_part(tmp_path: Path) -> None:
    parts, values = make_parts(tmp_path, chunks=(2, 20, 3), compression="gzip", compression_opts=7)
    kn.join(parts, tmp_path / "whole.h5md", copy=True)
    for part in parts:
        part.unlink()
    with h5py.File(tmp_path / "whole.h5md") as file:
        value = file["particles/all/position/value"]
        assert (value.compression, value.compression_opts, value.is_virtual) == ("gzip", 7, False)
        np.testing.assert_array_equal(value[()], values)


def change_unit(file: h5py.File) -> None:
    file["particles/all/position/value"].attrs["unit"] = np.bytes_(b"nm")


def remove_box(file: h5py.File) -> None:
    del file["particles/all/box/edges"]


def add_velocity(file: h5py.File) -> None:
    group = file["particles/all"].create_group("velocity")
    group["value"], group["step"] = np.zeros((3, 20, 3)), [200, 210, 220]


def change_type(file: h5py.File) -> None:
    values = file["particles/all/position/value"][()].astype("f8")
    del file["particles/all/position/value"]
    file["particles/all/position"].create_dataset("value", data=values).attrs["unit"] = np.bytes_(b"Angstrom")


def change_ids(file: h5py.File) -> None:
    file["particles/all/id"] = np.arange(20)[::-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_unit, "another unit"),
        (remove_box, "has no particles/all/box/edges"),
        (add_velocity, "has particles/all/velocity"),
        (change_type, "another type"),
        (change_ids, "all/id differs"),
    ],
)
def test_parts_that_do_not_fit(tmp_path: Path, change: Any, message: str) -> None:
    parts, _ = make_parts(tmp_path)
    with h5py.File(parts[1], "a") as file:
        change(file)
    for copy in (False, True):
        with pytest.raises(kn.ArgumentError, match=message):
            kn.join(parts, tmp_path / "whole.h5md", copy=copy)
    assert sorted(os.listdir(tmp_path)) == ["a.h5md", "b.h5md"]


def test_other_atoms_and_other_formats(tmp_path: Path) -> None:
    parts, _ = make_parts(tmp_path)
    make_h5md(tmp_path / "c.h5md", n_atoms=21, first_frame=50)
    with pytest.raises(kn.Error, match="number of atoms differs"):
        kn.join([*parts, tmp_path / "c.h5md"], tmp_path / "whole.h5md")
    write_xtc(tmp_path / "d.xtc", random_walk(5, 20), first_step=1000, dt=1.0)
    with pytest.raises(kn.ArgumentError, match="of one format"):
        kn.join([*parts, tmp_path / "d.xtc"], tmp_path / "whole.h5md")
    with pytest.raises(kn.ArgumentError, match="is the file that is read"):
        kn.join(parts, parts[0], overwrite=True)
    with pytest.raises(kn.ArgumentError, match="exists already"):
        kn.join(parts, tmp_path / "d.xtc")
    assert not (tmp_path / "whole.h5md").exists()


# -- XTC and DCD ----------------------------------------------------------------------------------------------------


def test_xtc_byte_for_byte(tmp_path: Path) -> None:
    positions = random_walk(20, 30)
    write_xtc(tmp_path / "whole.xtc", positions)
    parts = kn.split(tmp_path / "whole.xtc", tmp_path / "parts", parts=3).paths
    kn.join(parts, tmp_path / "out.xtc")
    assert (tmp_path / "out.xtc").read_bytes() == (tmp_path / "whole.xtc").read_bytes()


@pytest.mark.parametrize("overlap", ["first", "last", "all"])
def test_xtc_that_overlap(tmp_path: Path, overlap: str) -> None:
    positions = random_walk(20, 30)
    write_xtc(tmp_path / "a.xtc", positions[:12])
    write_xtc(tmp_path / "b.xtc", positions[8:] + 1, first_step=8)
    parts = [tmp_path / "a.xtc", tmp_path / "b.xtc"]
    kn.join(parts, tmp_path / "out.xtc", overlap=overlap)
    one = kn.open(parts, overlap=overlap, stored=False)
    other = kn.open(tmp_path / "out.xtc", overlap="all", stored=False)
    assert one.read().tobytes() == other.read().tobytes()
    np.testing.assert_array_equal(one.steps, other.steps)


def test_dcd_with_one_header(tmp_path: Path) -> None:
    positions = random_walk(20, 30)
    write_dcd(tmp_path / "whole.dcd", positions)
    parts = kn.split(tmp_path / "whole.dcd", tmp_path / "parts", parts=3).paths
    kn.join(parts, tmp_path / "out.dcd")
    assert (tmp_path / "out.dcd").read_bytes() == (tmp_path / "whole.dcd").read_bytes()


def test_dcd_with_frames_missing_between(tmp_path: Path) -> None:
    positions = random_walk(20, 30)
    write_dcd(tmp_path / "a.dcd", positions[:8])
    write_dcd(tmp_path / "b.dcd", positions[10:], first_step=10)
    with pytest.raises(kn.ArgumentError, match=r"expected step 8 after 7, found 10"):
        kn.join([tmp_path / "a.dcd", tmp_path / "b.dcd"], tmp_path / "out.dcd")
    write_dcd(tmp_path / "c.dcd", positions[8:], first_step=8, cell=(10.0, 10.0, 10.0))
    with pytest.raises(kn.ArgumentError, match="its header differs"):
        kn.join([tmp_path / "a.dcd", tmp_path / "c.dcd"], tmp_path / "out.dcd")
    (tmp_path / "fixed.dcd").write_bytes(dcd_with_fixed_atoms(3))
    with pytest.raises(kn.UnsupportedFormatError, match="fixed atoms"):
        kn.join([tmp_path / "fixed.dcd"], tmp_path / "out.dcd")
    assert not (tmp_path / "out.dcd").exists()


@pytest.mark.parametrize("copy", [False, True])
def test_steps_continue_through_parts_that_begin_at_0(tmp_path: Path, copy: bool) -> None:
    positions = random_walk(5, 4)
    with kn.Writer(tmp_path / "once.h5md", n_atoms=4) as out:
        out.write(positions, cell=np.full((5, 3), 30.0), step=[0, 2, 4, 6, 9], time=[0.0, 1.0, 2.0, 3.0, 4.5])
    kn.join([tmp_path / "once.h5md"] * 3, tmp_path / "whole.h5md", renumber=True, copy=copy)
    whole = kn.open(tmp_path / "whole.h5md", stored=False)
    assert whole.read().tobytes() == np.concatenate([positions] * 3).tobytes()
    assert whole.steps.tolist() == [0, 2, 4, 6, 9, 11, 13, 15, 17, 20, 22, 24, 26, 28, 31]
    assert whole.times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.5, 5.5, 6.5, 7.5, 8.5, 10.0, 11.0, 12.0, 13.0, 14.0, 15.5]


def test_what_cannot_be_renumbered(tmp_path: Path) -> None:
    parts, _ = make_parts(tmp_path, overlap=4)
    make_rich(tmp_path / "rich.h5md")
    with pytest.raises(kn.ArgumentError, match="has steps of its own, and only steps of frames can be renumbered"):
        kn.join([tmp_path / "rich.h5md"] * 2, tmp_path / "whole.h5md", renumber=True)
    with pytest.raises(kn.ArgumentError, match="overlap must be"):
        kn.join(parts, tmp_path / "whole.h5md", renumber=True, overlap="first")
    write_dcd(tmp_path / "a.dcd", random_walk(3, 4))
    with pytest.raises(kn.ArgumentError, match="only steps of H5MD files can be renumbered, found DCD"):
        kn.join([tmp_path / "a.dcd"] * 2, tmp_path / "b.dcd", renumber=True)
    assert not (tmp_path / "whole.h5md").exists()
