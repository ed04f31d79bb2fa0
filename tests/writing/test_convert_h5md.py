"""`kn.convert` to H5MD: bits, units, atoms, losses, refusals; for every format: split, dump, topology_out."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.model.selection.frames import FrameSelection
from kinema.testing import random_walk, write_dcd, write_xtc

N_FRAMES, N_ATOMS = 23, 17


def converted(source: Any, out: Path, **options: Any) -> kn.Converted:
    with collected():
        return kn.convert(source, out, **options)


def opened(path: str | Path, **options: Any) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False, **options)
        trajectory.scan()
    return trajectory


def native(path: str | Path, fields: tuple[str, ...] = ("positions",), dtype: str = "float64") -> dict[str, Any]:
    """All of a file in its own units."""
    trajectory = opened(path)
    return trajectory.core.read(FrameSelection(range(trajectory.n_frames)), fields=fields, dtype=dtype, native=True)


def assert_same(expected: dict[str, Any], found: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in (*names, "cells", "steps", "times"):
        assert expected[name].dtype == found[name].dtype
        assert np.array_equal(expected[name], found[name]), name


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Positions, velocities and forces in float64 with triclinic cells, uneven steps, in nm and fs."""
    rng = np.random.default_rng(3)
    path = tmp_path / "full.h5md"
    values = rng.normal(0, 3, (3, N_FRAMES, N_ATOMS, 3))
    cells = np.tril(rng.uniform(1, 3, (N_FRAMES, 3, 3))) + 5 * np.eye(3)
    steps = np.cumsum(rng.integers(1, 2**40, N_FRAMES))
    times = np.cumsum(rng.uniform(0.1, 1, N_FRAMES))
    with kn.Writer(path, N_ATOMS, dtype="float64", length_unit="nm", time_unit="fs", native=True) as out:
        out.write(values[0], velocities=values[1], forces=values[2], cell=cells, step=steps, time=times)
        out.add_observable("temperature", 300.0)
    return path


FIELDS = ("positions", "velocities", "forces")


@pytest.mark.parametrize("time_unit", ["ps", "fs", "ns"])
@pytest.mark.parametrize("length_unit", ["angstrom", "nm", "pm"])
def test_every_bit_of_every_field_in_every_unit(tmp_path: Path, length_unit: str, time_unit: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 3, (3, N_FRAMES, N_ATOMS, 3))
    cells = np.tril(rng.uniform(1, 3, (N_FRAMES, 3, 3))) + 5 * np.eye(3)
    times = np.cumsum(rng.uniform(0.1, 1, N_FRAMES))
    with kn.Writer(
        tmp_path / "a.h5md", N_ATOMS, dtype="float64", length_unit=length_unit, time_unit=time_unit, native=True
    ) as out:
        out.write(
            values[0], velocities=values[1], forces=values[2], cell=cells, step=np.arange(N_FRAMES) ** 2, time=times
        )
    assert np.array_equal(native(tmp_path / "a.h5md")["positions"], values[0])
    atoms = [*range(N_ATOMS - 1, 0, -2), 0]
    done = converted(tmp_path / "a.h5md", tmp_path / "b.h5md", select=atoms, step=2, verify="all")
    assert (done.fields, done.losses, done.compared) == (FIELDS, (), 12)
    with h5py.File(tmp_path / "b.h5md") as file:
        group = file["particles/trajectory"]
        for element, expected in zip(("position", "velocity", "force"), values, strict=True):
            assert group[f"{element}/value"].dtype == np.float64
            assert np.array_equal(group[f"{element}/value"], expected[::2][:, atoms])
        assert np.array_equal(group["box/edges/value"], cells[::2])
        assert np.array_equal(group["position/time"], times[::2])
        assert group["position/time"].attrs["unit"].decode() == time_unit
    assert (done.format, done.n_atoms) == ("H5MD", len(atoms))


def test_xtc_keeps_its_nanometres(adk_xtc: Any, tmp_path: Path) -> None:
    done = converted(adk_xtc.trajectory, tmp_path / "a.h5md", verify="all")
    assert done.losses == () and done.compared == done.n_frames == 10
    with h5py.File(tmp_path / "a.h5md") as file:
        value = file["particles/trajectory/position/value"]
        assert (value.dtype, value.attrs["unit"]) == (np.float32, b"nm")
    source = native(adk_xtc.trajectory, dtype="float32")
    assert_same(source, native(tmp_path / "a.h5md", dtype="float32"), ("positions",))
    # and again as XTC: the same integers
    converted(tmp_path / "a.h5md", tmp_path / "b.xtc", precision=1000)
    assert np.array_equal(opened(tmp_path / "b.xtc").read(), opened(adk_xtc.trajectory).read())
    done = converted(adk_xtc.trajectory, tmp_path / "c.h5md", length_unit="angstrom")
    assert "positions are converted to Angstrom, and rounded once" in done.losses[0]
    assert np.array_equal(native(tmp_path / "c.h5md", dtype="float32")["positions"], opened(adk_xtc.trajectory).read())


def test_dcd_there_and_back(adk_dcd: Any, tmp_path: Path) -> None:
    done = converted(adk_dcd.trajectory, tmp_path / "a.h5md")
    assert done.losses == ()
    converted(tmp_path / "a.h5md", tmp_path / "b.dcd")
    expected, found = opened(adk_dcd.trajectory), opened(tmp_path / "b.dcd")
    assert np.array_equal(expected.read(), found.read())
    assert np.array_equal(expected.steps, found.steps)
    np.testing.assert_allclose(expected.times, found.times, rtol=1e-6)


def test_what_mdanalysis_reads(adk_dcd: Any, tmp_path: Path) -> None:
    import MDAnalysis

    converted(adk_dcd.trajectory, tmp_path / "a.h5md", dialect="mdanalysis", select=np.arange(50), cell=None)
    copy = MDAnalysis.Universe.empty(50, trajectory=False)
    copy.load_new(str(tmp_path / "a.h5md"), convert_units=False)
    expected = opened(adk_dcd.trajectory).read(select=np.arange(50))
    assert all(np.array_equal(frame.positions, one) for frame, one in zip(copy.trajectory, expected, strict=True))


@pytest.mark.skipif(h5py.version.hdf5_version_tuple < (2,), reason="libhdf5 1.14 stores the time with each group")
def test_the_same_bytes_for_any_workers_and_memory(full: Path, adk_dcd: Any, tmp_path: Path) -> None:
    large = tmp_path / "large.h5md"
    positions = random_walk(120, 400)
    with kn.Writer(large, 400) as writer:
        # batches of chunks of several data sets, one after the other
        writer.write(
            positions, velocities=positions / 3, cell=np.tile(np.eye(3), (120, 1, 1)) * np.abs(positions[:, :1, :1])
        )
    for source, options in (
        (large, {"compression": "gzip", "chunk_bytes": 8192, "fields": ["velocities", "positions"]}),
        (full, {"select": list(range(N_ATOMS))}),
        (full, {"select": [3, 1], "compression": "gzip", "layout": (4, 1, 3)}),
        (adk_dcd.trajectory, {"compression": "zstd"}),
        ([adk_dcd.trajectory] * 2, {"overlap": "all", "dt": 1.0, "layout": "contiguous"}),
    ):
        hashes = set()
        for workers in (1, 2, 3, 5):
            for memory in (None, "16 MiB", "40 MiB"):
                out = tmp_path / "out.h5md"
                converted(source, out, workers=workers, memory=memory, overwrite=True, **options)
                hashes.add(hashlib.sha256(out.read_bytes()).hexdigest())
        assert len(hashes) == 1, (source, options)


def test_large_frames_in_little_memory(tmp_path: Path) -> None:
    positions = random_walk(9, 60_000)
    write_dcd(tmp_path / "a.dcd", positions)
    hashes = set()
    for memory in ("8 MiB", None):
        converted(tmp_path / "a.dcd", tmp_path / "a.h5md", memory=memory, overwrite=True, verify="all")
        hashes.add(hashlib.sha256((tmp_path / "a.h5md").read_bytes()).hexdigest())
    assert len(hashes) == 1
    assert np.array_equal(opened(tmp_path / "a.h5md").read(), positions)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kn.MemoryLimitError, match="raise memory= or select fewer atoms"):
        converted(tmp_path / "a.dcd", tmp_path / "b.h5md", memory="4 MiB")
    assert sorted(tmp_path.iterdir()) == before


def test_all_of_a_file_is_repacked(full: Path, tmp_path: Path) -> None:
    with pytest.warns(kn.Note, match="as by kinema repack"):
        done = kn.convert(full, tmp_path / "a.h5md", compression="gzip", level=2)
    assert done.compared == N_FRAMES
    with h5py.File(tmp_path / "a.h5md") as file:
        assert file["observables/temperature"][()] == 300.0
        assert file["particles/trajectory/position/value"].compression_opts == 2
    assert_same(native(full, FIELDS), native(tmp_path / "a.h5md", FIELDS), FIELDS)
    # something is left out: what else the file has is a loss
    done = converted(full, tmp_path / "b.h5md", stop=-1)
    assert done.losses == (f"{tmp_path / 'b.h5md'}: observables are not written: temperature",)
    assert_same(
        {name: values[:-1] for name, values in native(full, FIELDS).items()},
        native(tmp_path / "b.h5md", FIELDS),
        FIELDS,
    )
    # no compression is a choice as well
    converted(tmp_path / "a.h5md", tmp_path / "c.h5md", compression=None)
    with h5py.File(tmp_path / "c.h5md") as file:
        assert file["particles/trajectory/position/value"].compression is None


def test_losses(full: Path, tmp_path: Path) -> None:
    done = converted(full, tmp_path / "a.h5md", frames=[4, 2, 9], dtype="float32", length_unit="pm", max_error=0.01)
    said = " ".join(done.losses)
    for words in (
        "positions are rounded from float64 to float32",
        "velocities are converted to pm fs-1, and rounded once",
        "positions are rounded, none by more than 0.01 angstrom",
        "steps are not kept, as they do not rise: frames are counted from 0",
        "times are not kept, as they fall",
    ):
        assert words in said
    copy = opened(tmp_path / "a.h5md")
    assert copy.steps.tolist() == [0, 1, 2]
    assert np.isnan(copy.times).all()
    expected = opened(full).read([4, 2, 9], dtype="float64")
    assert 0 < np.abs(copy.read(dtype="float64") - expected).max() <= 0.01
    with h5py.File(tmp_path / "a.h5md") as file:
        noted = json.loads(file["parameters/kinema/provenance"][()])
    assert tuple(noted["notes"]) == done.losses
    assert (noted["frames"], noted["date"]) == ("3 chosen: 4, 2, 9", "")
    assert noted["parameters"] == {"dtype": "float32", "length_unit": "pm", "max_error": "0.01"}
    assert [one["path"] for one in noted["inputs"]] == [str(full)]


def test_stated_times_and_fields(full: Path, tmp_path: Path) -> None:
    done = converted(full, tmp_path / "a.h5md", dt=2.0, t0=10.0, fields="velocities", verify="all")
    assert done.fields == ("velocities",) and done.compared == N_FRAMES
    copy = opened(tmp_path / "a.h5md")
    np.testing.assert_allclose(copy.times, 10.0 + 2.0 * np.arange(N_FRAMES), rtol=1e-14)
    assert np.array_equal(
        native(full, ("velocities",))["velocities"], native(copy.paths[0], ("velocities",))["velocities"]
    )


def test_atoms_of_the_topology(adk_dcd: Any, tmp_path: Path) -> None:
    (tmp_path / "a.ndx").write_text("[ some ]\n 50 2 9 33\n")
    converted(
        adk_dcd.trajectory,
        tmp_path / "a.h5md",
        topology=adk_dcd.topology,
        index_file=tmp_path / "a.ndx",
        stop=3,
        topology_out=tmp_path / "a.pdb",
    )
    source = opened(adk_dcd.trajectory, topology=adk_dcd.topology)
    copy = opened(tmp_path / "a.h5md")
    for column in ("names", "resnames", "resids", "masses", "charges"):
        assert np.array_equal(copy.atoms.get(column), source.atoms[[49, 1, 8, 32]].get(column)), column


@pytest.mark.parametrize("suffix", ["pdb", "gro"])
@pytest.mark.parametrize("to", ["xtc", "dcd", "h5md"])
def test_topology_out_fits_its_trajectory(adk_dcd: Any, tmp_path: Path, suffix: str, to: str) -> None:
    import MDAnalysis

    (tmp_path / "a.ndx").write_text("[ some ]\n 50 2 9 33 3000\n")
    done = converted(
        adk_dcd.trajectory,
        tmp_path / f"a.{to}",
        topology=adk_dcd.topology,
        index_file=tmp_path / "a.ndx",
        start=3,
        topology_out=tmp_path / f"a.{suffix}",
    )
    assert done.topology_out == str(tmp_path / f"a.{suffix}")
    source = MDAnalysis.Universe(adk_dcd.topology, adk_dcd.trajectory)
    copy = MDAnalysis.Universe(str(tmp_path / f"a.{suffix}"))
    picked = source.atoms[[49, 1, 8, 32, 2999]]
    assert copy.atoms.names.tolist() == picked.names.tolist()
    assert copy.atoms.resnames.tolist() == picked.resnames.tolist()
    assert copy.atoms.resids.tolist() == picked.resids.tolist()
    source.trajectory[3]
    np.testing.assert_allclose(copy.atoms.positions, picked.positions, atol=0.0051)
    trajectory = opened(done.path, topology=str(tmp_path / f"a.{suffix}"))
    np.testing.assert_allclose(trajectory.read(0)[0], picked.positions, atol=0.0051)
    assert trajectory.select(f"name {picked.names[0]}").n_atoms >= 1


def test_the_cell_is_in_the_topology(adk_xtc: Any, tmp_path: Path) -> None:
    import MDAnalysis

    options = {"topology": adk_xtc.topology, "select": "resname NA+", "start": 4}
    converted(adk_xtc.trajectory, tmp_path / "a.xtc", topology_out=tmp_path / "a.gro", **options)
    source = MDAnalysis.Universe(adk_xtc.topology, adk_xtc.trajectory)
    source.trajectory[4]
    copy = MDAnalysis.Universe(str(tmp_path / "a.gro"), str(tmp_path / "a.xtc"))
    np.testing.assert_allclose(MDAnalysis.Universe(str(tmp_path / "a.gro")).dimensions, source.dimensions, rtol=1e-4)
    assert np.array_equal(copy.atoms.positions, source.select_atoms("resname NA+").positions)


@pytest.mark.parametrize("suffix", ["xtc", "dcd", "h5md"])
def test_split(tmp_path: Path, suffix: str) -> None:
    positions = random_walk(10, 20)
    write_xtc(tmp_path / "in.xtc", positions)
    source = opened(tmp_path / "in.xtc")
    done = converted(source, tmp_path / f"out.{suffix}", split=4, verify="all")
    names = [tmp_path / f"out{number}.{suffix}" for number in range(3)]
    assert done.paths == tuple(map(str, names))
    assert (done.n_frames, done.compared) == (10, 10)
    assert done.size == sum(name.stat().st_size for name in names)
    assert [opened(name).n_frames for name in names] == [4, 4, 2]
    joined = opened(names)  # type: ignore[arg-type]
    assert np.array_equal(joined.read(), source.read())
    np.testing.assert_allclose(joined.times, source.times, rtol=1e-6)
    assert f"in {len(names)} files" in str(done)
    # one that is there is refused before any is written
    for name in names[:2]:
        name.unlink()
    with pytest.raises(kn.ArgumentError, match=rf"out2\.{suffix}: exists already"):
        converted(source, tmp_path / f"out.{suffix}", split=4)
    assert not names[0].exists()
    converted(source, tmp_path / f"out.{suffix}", split=4, overwrite=True)
    assert all(name.exists() for name in names)


def test_dump(tmp_path: Path) -> None:
    write_xtc(tmp_path / "in.xtc", random_walk(10, 20), dt=2.0)
    source = opened(tmp_path / "in.xtc")
    for time, frame, note in (
        (6.0, 3, None),
        (6.9, 3, "is frame 3, at 6 ps"),
        (-50.0, 0, "nearest to -50 ps"),
        (7.0, 3, "7"),
    ):
        done = converted(source, tmp_path / "a.dcd", dump=time, overwrite=True)
        assert opened(tmp_path / "a.dcd").times == pytest.approx([2.0 * frame])
        assert any(note in one for one in done.notes) if note else not any("nearest" in one for one in done.notes)
    # of a view, its own frames
    done = converted(source[5:], tmp_path / "a.h5md", dump=0.0)
    assert opened(tmp_path / "a.h5md").times.tolist() == [10.0]
    with pytest.raises(kn.ArgumentError, match="dump= and step= cannot be combined"):
        converted(source, tmp_path / "b.dcd", dump=1.0, step=2)
    with pytest.raises(kn.ArgumentError, match="found nan"):
        converted(source, tmp_path / "b.dcd", dump=float("nan"))


def test_what_is_refused_leaves_nothing(full: Path, tmp_path: Path) -> None:
    write_xtc(tmp_path / "in.xtc", random_walk(4, 20))
    opened(there := tmp_path / "in.xtc")
    before = sorted(os.listdir(tmp_path))
    out = tmp_path / "a.h5md"
    for source, name, options, error, words in (
        (full, full, {"overwrite": True, "step": 2}, kn.ArgumentError, "is the file that is read"),
        (there, out, {"precision": 100}, kn.ArgumentError, "takes layout=, chunk_bytes=, align=, compression="),
        (there, out, {"n_frames": 3}, kn.ArgumentError, "do not have n_frames="),
        (there, tmp_path / "a.xtc", {"layout": "atoms"}, kn.ArgumentError, "convert to XTC takes precision="),
        (there, out, {"layout": "odd"}, kn.ArgumentError, "layout is one of"),
        (there, out, {"length_unit": "inch"}, kn.ArgumentError, "length_unit is one of"),
        (there, out, {"fields": ["positions", "forces"]}, kn.ArgumentError, "has no forces"),
        (there, out, {"split": 0}, kn.ArgumentError, "split is a whole number from 1 on"),
        (there, out, {"verify": "some"}, kn.ArgumentError, "verify is True for some frames"),
        (there, out, {"topology_out": tmp_path / "a.xyz"}, kn.UnsupportedFormatError, "a file .pdb or .gro"),
        (there, out, {"topology_out": tmp_path / "a.pdb"}, kn.ArgumentError, "nothing is known of its atoms"),
        (there, out, {"topology_out": out}, kn.ArgumentError, "name two files"),
        (there, tmp_path / "a.xyz", {}, kn.UnsupportedFormatError, r"DCD \(.dcd, .veldcd\), H5MD \(.h5md, "),
        (there, tmp_path / "a.pdb", {}, kn.ArgumentError, "PDB needs names of atoms; open the input with topology="),
    ):
        with pytest.raises(error, match=words):
            converted(source, name, stored=False, **options)
        assert sorted(os.listdir(tmp_path)) == before, (name, options)


def test_frames_that_lack_something_are_refused_with_their_number(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "in.h5md", 12) as out:
        for i, positions in enumerate(random_walk(6, 12)):
            out.write(positions, velocities=positions, step=i, cell=[30, 30, 30])
    with h5py.File(tmp_path / "in.h5md", "r+") as file:
        element = file["particles/trajectory/velocity"]
        kept = element["value"][::2]
        attributes = dict(element["value"].attrs)
        del element["value"], element["step"]
        element.create_dataset("value", data=kept).attrs.update(attributes)
        element["step"] = np.arange(0, 6, 2)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(kn.UnsupportedFormatError, match="H5MD frame 2: the source has no velocities in its frame 3"):
        converted(tmp_path / "in.h5md", tmp_path / "a.h5md", absent="nan", frames=[0, 2, 3, 4])
    assert sorted(os.listdir(tmp_path)) == before
    assert converted(tmp_path / "in.h5md", tmp_path / "a.h5md", fields="positions").fields == ("positions",)
    both = converted(tmp_path / "in.h5md", tmp_path / "b.h5md", absent="nan", step=2)
    assert both.fields == ("positions", "velocities")


def test_a_cell_that_only_some_frames_have(tmp_path: Path) -> None:
    positions = random_walk(4, 20)
    cells = np.stack([30.0 * np.eye(3)] * 4)
    cells[2] = 0
    write_xtc(tmp_path / "in.xtc", positions, cell=cells)
    with pytest.raises(kn.UnsupportedFormatError, match="H5MD frame 2: the source has no cell in its frame 2"):
        converted(tmp_path / "in.xtc", tmp_path / "a.h5md")
    with pytest.raises(kn.UnsupportedFormatError, match="H5MD frame 0: the source has no cell in its frame 2"):
        converted(tmp_path / "in.xtc", tmp_path / "a.h5md", frames=[2, 3])
    assert not list(tmp_path.glob("a.*"))
    converted(tmp_path / "in.xtc", tmp_path / "a.h5md", frames=[0, 1, 3])


@pytest.mark.parametrize("verify", [True, "all"])
@pytest.mark.parametrize("what", ["position/value", "box/edges/value", "position/step", "position/time"])
def test_a_file_that_reads_back_otherwise_is_not_kept(
    adk_xtc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: Any, what: str
) -> None:
    import kinema.files.conversion.blocks as module

    inner = module.compare

    def compare(copy: Any, path: str, *given: Any, **more: Any) -> int:
        with h5py.File(path, "r+") as file:
            values = file["particles/trajectory"][what]
            if values.shape:
                values[(7,) + (0,) * (values.ndim - 1)] += 1
            else:
                values[()] += 1
        return inner(copy, path, *given, **more)

    monkeypatch.setattr(module, "compare", compare)
    (tmp_path / "a.h5md").write_bytes(b"before")
    with pytest.raises(kn.CorruptFileError, match=r"H5MD frame .* read back are not those of the source"):
        converted(adk_xtc.trajectory, tmp_path / "a.h5md", verify=verify, overwrite=True)
    assert (tmp_path / "a.h5md").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a.h5md"]


@pytest.mark.parametrize("suffix", ["dcd", "xtc", "h5md"])
def test_all_frames_are_compared(small: kn.Trajectory, tmp_path: Path, suffix: str) -> None:
    assert converted(small, tmp_path / f"a.{suffix}", verify="all").compared == small.n_frames
    assert converted(small, tmp_path / f"b.{suffix}").compared == min(16, small.n_frames)
    assert converted(small, tmp_path / f"c.{suffix}", verify=False).compared == 0


def test_inputs_are_joined_as_by_open(tmp_path: Path) -> None:
    positions = random_walk(30, 20)
    write_xtc(tmp_path / "a.xtc", positions[:20])
    write_xtc(tmp_path / "b.xtc", positions[15:], first_step=15)
    names = [tmp_path / "a.xtc", tmp_path / "b.xtc"]
    for overlap in ("last", "first", "all"):
        whole = opened(names, overlap=overlap)  # type: ignore[arg-type]
        done = converted(names, tmp_path / "out.h5md", overlap=overlap, overwrite=True, verify="all")
        copy = opened(tmp_path / "out.h5md")
        assert np.array_equal(copy.read(), whole.read())
        # time goes back where both parts count
        kept = overlap != "all"
        assert (done.losses == ()) == kept
        assert np.array_equal(copy.times, whole.times) == kept


def test_an_error_in_the_middle_leaves_the_old_file(adk_xtc: Any, tmp_path: Path) -> None:
    data = bytearray(Path(adk_xtc.trajectory).read_bytes())
    frame = opened(adk_xtc.trajectory).core.extents(0)[0][6]
    data[int(frame) + 92 : int(frame) + 4092] = bytes(4000)
    (tmp_path / "in.xtc").write_bytes(data)
    (tmp_path / "a.h5md").write_bytes(b"before")
    with pytest.raises(kn.CorruptFileError, match="XTC frame 6"):
        converted(tmp_path / "in.xtc", tmp_path / "a.h5md", overwrite=True)
    assert (tmp_path / "a.h5md").read_bytes() == b"before"
    assert sorted(name for name in os.listdir(tmp_path) if not name.startswith(".")) == ["a.h5md", "in.xtc"]


@pytest.mark.parametrize("suffix", ["dcd", "xtc", "h5md"])
def test_what_a_sample_misses_all_frames_show(
    adk_dcd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    from kinema.files.conversion import blocks, records

    inner = records.compare

    def compare(copy: Any, path: str, *given: Any, **more: Any) -> int:
        if suffix == "h5md":
            with h5py.File(path, "r+") as file:
                file["particles/trajectory/position/value"][1, 3000, 2] += 1
        else:
            begin, length = (int(values[1]) for values in opened(path).core.extents(0))
            with open(path, "r+b") as file:
                file.seek(begin + length // 2)
                byte = file.read(1)[0]
                file.seek(begin + length // 2)
                file.write(bytes([byte ^ 0x41]))
        return inner(copy, path, *given, **more)

    for module in (records, blocks):
        monkeypatch.setattr(module, "compare", compare)
    # frames 0, 6, 12, ...
    assert converted(adk_dcd.trajectory, tmp_path / f"a.{suffix}").compared == 16
    with pytest.raises(kn.CorruptFileError, match=r"frame 1\b"):
        converted(adk_dcd.trajectory, tmp_path / f"b.{suffix}", verify="all", memory="64 MiB")
    assert not (tmp_path / f"b.{suffix}").exists()


def test_comparing_all_keeps_to_the_memory(adk_xtc: Any, tmp_path: Path) -> None:
    assert converted(adk_xtc.trajectory, tmp_path / "a.h5md", verify="all", memory="24 MiB").compared == 10
    assert converted(adk_xtc.trajectory, tmp_path / "a.dcd", verify="all", memory="24 MiB").compared == 10
    with pytest.raises(kn.MemoryLimitError, match=r"raise memory=, or leave out verify='all'"):
        converted(adk_xtc.trajectory, tmp_path / "b.xtc", verify="all", memory="7 MiB")
    assert sorted(os.listdir(tmp_path)) == ["a.dcd", "a.h5md"]


def test_a_dialect_that_mdanalysis_reads(tmp_path):
    import MDAnalysis

    write_dcd(tmp_path / "a.dcd", random_walk(6, 5))
    plain = kn.convert(tmp_path / "a.dcd", tmp_path / "plain.h5md")
    assert any("dialect='mdanalysis' makes one that it reads" in note for note in plain.notes)
    done = kn.convert(tmp_path / "a.dcd", tmp_path / "theirs.h5md", dialect="mdanalysis")
    assert not any("dialect" in note for note in done.notes)
    universe = MDAnalysis.Universe.empty(5, trajectory=True)
    universe.load_new(str(tmp_path / "theirs.h5md"), format="H5MD")
    theirs = np.array([frame.positions.copy() for frame in universe.trajectory])
    np.testing.assert_array_equal(theirs, kn.open(tmp_path / "a.dcd").read())
