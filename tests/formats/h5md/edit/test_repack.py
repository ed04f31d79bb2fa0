"""`kn.repack`: whatever the layout, all that a file says stays; what cannot be done is refused and leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinema as kn
from kinema.files.h5md import transfer
from kinema.formats.h5md import atoms_of
from kinema.formats.hdf5 import encoding
from kinema.storage.hdf5.storage import Storage
from kinema.testing import atom_tables
from kinema.testing.amounts import each
from kinema.testing.h5md_files import CASES, ConformanceFile
from kinema.testing.strategies import examples_of_files

from .files import OTHER_FORMATS, compare_objects, compare_trajectories, make_h5md, make_rich, walk

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

VARIANTS: dict[str, dict[str, Any]] = {
    "frames": {},
    "atoms": {"layout": "atoms", "compression": "gzip"},
    "contiguous": {"layout": "contiguous"},
    "shape": {"layout": (3, 2, 1), "compression": "zstd", "memory": "1 KiB"},
    "keep": {"layout": "keep"},
}


@pytest.mark.parametrize(
    ("case", "variant"), each([case for case in CASES if case.name not in OTHER_FORMATS], tuple(VARIANTS)), ids=str
)
def test_conformance_files_read_alike(conformance: Any, tmp_path: Path, case: ConformanceFile, variant: str) -> None:
    target = tmp_path / "out.h5md"
    source, expected = conformance(case, tmp_path)
    kn.repack(source, target, root=expected.options.get("root"), **VARIANTS[variant])
    compare_trajectories(source, target, **expected.options)


@pytest.mark.parametrize("name", ["H5MD_xvf", "H5MD_energy", "H5MD_malformed"])
@pytest.mark.parametrize("variant", ["frames", "atoms"])
def test_files_of_other_programs(tmp_path: Path, name: str, variant: str) -> None:
    from MDAnalysisTests import datafiles

    source = getattr(datafiles, name)
    kn.repack(source, tmp_path / "out.h5md", **VARIANTS[variant])
    compare_trajectories(source, tmp_path / "out.h5md")
    with h5py.File(source) as old, h5py.File(tmp_path / "out.h5md") as new:
        compare_objects(old, new)


@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_else_is_kept(tmp_path: Path, variant: str) -> None:
    make_rich(tmp_path / "in.h5md")
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", **VARIANTS[variant])
    with h5py.File(tmp_path / "in.h5md") as old, h5py.File(tmp_path / "out.h5md") as new:
        compare_objects(old, new)


def test_links_and_references(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")
    (tmp_path / "sub").mkdir()
    kn.repack(tmp_path / "in.h5md", tmp_path / "sub/out.h5md")
    with h5py.File(tmp_path / "sub/out.h5md") as new:
        assert new["particles/all/box/edges/step"] == new["particles/all/position/step"]
        assert new["extra/again"] == new["extra/table"]
        assert new["extra"].get("soft", getlink=True).path == "/extra/table"
        assert new["extra"].get("nowhere", getlink=True).path == "/gone"
        assert new["extra/elsewhere"][()] == 42  # the relative name was turned
        assert new[new["connectivity/bonds"].attrs["particles_group"]] == new["particles/all"]
        references = new["extra/references"][()]
        assert new[references[0]] == new["extra/table"]
        assert not references[1]
        np.testing.assert_array_equal(new["extra/grid"][new["extra/region"][0]], [[5, 6], [9, 10]])


def test_chunks_by_name(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", n_frames=40, n_atoms=1000, chunks=(7, 100, 1))

    def chunks(**options: Any) -> tuple[int, ...] | None:
        kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", overwrite=True, **options)
        with h5py.File(tmp_path / "out.h5md") as file:
            found: tuple[int, ...] | None = file["particles/all/position/value"].chunks
            return found

    assert chunks() == (40, 1000, 3)
    assert chunks(chunk_bytes=120_000) == (10, 1000, 3)
    assert chunks(layout="atoms", chunk_bytes=48_000) == (40, 100, 3)
    assert chunks(layout="contiguous") is None
    assert chunks(layout="keep") == (7, 100, 1)
    assert chunks(layout=(5, 300, 2)) == (5, 300, 2)


@pytest.mark.parametrize(
    ("name", "filters"),
    [("gzip", [2, 1]), ("zstd", [2, 32015]), ("lz4", [2, 32004]), ("bitshuffle-lz4", [32008]), (None, [])],
)
def test_compression_by_name_is_read_by_libhdf5(tmp_path: Path, name: str | None, filters: list[int]) -> None:
    import hdf5plugin  # noqa: F401

    values = make_h5md(tmp_path / "in.h5md", n_frames=11, n_atoms=50)
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", compression=name)
    with h5py.File(tmp_path / "out.h5md") as file:
        value = file["particles/all/position/value"]
        plist = value.id.get_create_plist()
        assert [plist.get_filter(i)[0] for i in range(plist.get_nfilters())] == filters
        assert value[()].tobytes() == values.tobytes()


def test_a_compression_that_is_not_written_becomes_gzip_and_is_said(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", scaleoffset=3, chunks=(2, 10, 3))
    done = kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md")
    assert any("scaleoffset" in note and "gzip" in note for note in done.notes)
    with h5py.File(tmp_path / "in.h5md") as before, h5py.File(tmp_path / "out.h5md") as file:
        assert file["particles/all/position/value"].compression == "gzip"
        np.testing.assert_array_equal(
            file["particles/all/position/value"][()], before["particles/all/position/value"][()]
        )


def test_lzf_and_szip_are_kept(tmp_path: Path) -> None:
    for name, options in {"lzf": {}, "szip": {"compression_opts": ("ec", 16)}}.items():
        values = make_h5md(tmp_path / f"{name}.h5md", compression=name, chunks=(2, 10, 3), **options)
        assert not kn.repack(tmp_path / f"{name}.h5md", tmp_path / f"{name}-out.h5md").notes
        with h5py.File(tmp_path / f"{name}-out.h5md") as file:
            value = file["particles/all/position/value"]
            assert (value.compression, value.compression_opts) == (name, options.get("compression_opts"))
            assert value[()].tobytes() == values.tobytes()


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2", "<i4", "<i8", "|u1"])
def test_numbers_keep_their_type_and_bits(tmp_path: Path, kind: str) -> None:
    values = (walk(30, 10) * (1 if np.dtype(kind).kind == "f" else 7)).astype(kind)
    if kind == "<f8":
        values.reshape(-1)[::7] = np.nan
    if kind == "<i8":
        values += 2**60 + 1
    make_h5md(tmp_path / "in.h5md", values=np.tile(values, (1, 2000, 1)), chunks=(4, 999, 2))
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", layout="atoms", compression="gzip", memory="17 MiB")
    with h5py.File(tmp_path / "in.h5md") as old, h5py.File(tmp_path / "out.h5md") as new:
        a, b = (file["particles/all/position/value"] for file in (old, new))
        assert a.dtype.str == b.dtype.str == kind
        assert a[()].tobytes() == b[()].tobytes()


def test_steps_in_tiny_chunks_get_longer_ones(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "gromacs")
    case.write(tmp_path / "in.h5md")
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md")
    with h5py.File(tmp_path / "out.h5md") as file:
        group = file["particles/system"]
        assert group["position/step"].chunks[0] >= 1024
        assert group["velocity/time"].chunks[0] >= 1024
        assert group["box/edges/step"] == group["position/step"]
        assert group["box/edges/value"].chunks[0] > 1


def test_rounding_keeps_its_bound_and_says_so(tmp_path: Path) -> None:
    values = make_h5md(tmp_path / "in.h5md", n_frames=50, n_atoms=400, unit="nm")
    done = kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", max_error=0.02, compression="gzip")
    with h5py.File(tmp_path / "out.h5md") as file:
        value = file["particles/all/position/value"]
        change = np.abs(value[()].astype(float) - values).max()
        assert 0 < change <= 0.002  # nm
        assert done.largest_change == pytest.approx(change)
        assert value.attrs["kinema_max_error"] == 0.02
        assert value.attrs["kinema_max_error_unit"] == b"angstrom"
    kn.repack(tmp_path / "out.h5md", tmp_path / "again.h5md", max_error=0.001, unit="nm")
    with h5py.File(tmp_path / "again.h5md") as file:
        assert file["particles/all/position/value"].attrs["kinema_max_error"] == pytest.approx(0.003)
    plain = kn.repack(tmp_path / "in.h5md", tmp_path / "plain.h5md", compression="gzip")
    assert done.size_after < 0.8 * plain.size_after


def test_several_groups_and_one_of_them(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", groups=("water", "protein"), chunks=(1, 5, 1))
    kn.repack(tmp_path / "in.h5md", tmp_path / "one.h5md", particles="water")
    kn.repack(tmp_path / "in.h5md", tmp_path / "all.h5md")
    with h5py.File(tmp_path / "one.h5md") as one, h5py.File(tmp_path / "all.h5md") as all_:
        assert one["particles/water/position/value"].chunks == (12, 20, 3)
        assert one["particles/protein/position/value"].chunks == (1, 5, 1)
        assert all_["particles/protein/position/value"].chunks == (12, 20, 3)
    with pytest.raises(kn.ArgumentError, match="no particles group 'ice'"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "ice.h5md", particles="ice")
    with pytest.raises(kn.ArgumentError, match="needs particles="):
        kn.repack(tmp_path / "in.h5md", tmp_path / "ice.h5md", select=[1])


def test_a_virtual_data_set_becomes_data(tmp_path: Path) -> None:
    values = make_h5md(tmp_path / "in.h5md", n_frames=10)
    parts = kn.split(tmp_path / "in.h5md", tmp_path / "parts", parts=3)
    kn.join(parts.paths, tmp_path / "virtual.h5md")
    kn.repack(tmp_path / "virtual.h5md", tmp_path / "out.h5md")
    shutil.rmtree(tmp_path / "parts")
    with h5py.File(tmp_path / "out.h5md") as file:
        assert not file["particles/all/position/value"].is_virtual
        assert file["particles/all/position/value"][()].tobytes() == values.tobytes()


# -- fewer atoms ----------------------------------------------------------------------------------------------------


def test_a_selection_takes_all_columns_along(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")
    atoms = [7, 3, 4, 11]
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select=atoms)
    with h5py.File(tmp_path / "in.h5md") as old, h5py.File(tmp_path / "out.h5md") as new:
        a, b = old["particles/all"], new["particles/all"]
        for name in ("position/value", "velocity/value", "image/value"):
            assert b[name][()].tobytes() == a[name][()][:, atoms].tobytes()
        for name in ("mass", "species", "id"):
            np.testing.assert_array_equal(b[name][()], a[name][()][atoms])
        assert h5py.check_enum_dtype(b["species"].dtype) == h5py.check_enum_dtype(a["species"].dtype)
        # tuples of ids: only that of atoms 3 and 4 was selected whole
        np.testing.assert_array_equal(new["connectivity/bonds"][()], [[1003, 1004]])
        np.testing.assert_array_equal(new["observables/energy/value"][()], old["observables/energy/value"][()])


def test_a_selection_of_a_gromacs_file_keeps_names_and_bonds(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "gromacs")
    case.write(tmp_path / "in.h5md")
    done = kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select="resname SOL and resid 2:100")
    assert any("gromacs_topology" in note for note in done.notes)
    before, after = atoms_of(tmp_path / "in.h5md"), atoms_of(tmp_path / "out.h5md")
    assert before is not None
    assert after is not None
    atoms = kn.open(tmp_path / "in.h5md").select("resname SOL and resid 2:100").indices
    assert 0 < len(atoms) < 7
    for name in ("names", "elements", "masses", "charges"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name)[atoms])
    assert after.columns == before.columns
    np.testing.assert_array_equal(after.resnames, before.resnames[atoms])
    first = int(atoms[0])
    np.testing.assert_array_equal(after.bonds, [bond - first for bond in before.bonds if bond[0] >= first])
    with h5py.File(tmp_path / "out.h5md") as file:
        assert file["connectivity/bonds"].attrs["bond_count"] == len(after.bonds)


@settings(max_examples=examples_of_files(), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(atoms=atom_tables(), data=st.data())
def test_a_selection_keeps_what_is_known_of_its_atoms(tmp_path: Path, atoms: kn.Atoms, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, atoms.n_atoms - 1), min_size=1, unique=True))
    with kn.Writer(tmp_path / "in.h5md", atoms.n_atoms, atoms=atoms, overwrite=True) as out:
        out.write(np.zeros((2, atoms.n_atoms, 3)), step=[0, 1])
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select=chosen, overwrite=True)
    found = atoms_of(tmp_path / "out.h5md")
    assert (found is None) == (not atoms.columns)
    if found is not None:
        assert found == atoms[chosen]


def test_parts_and_joined_files_keep_what_is_known_of_the_atoms(tmp_path: Path) -> None:
    atoms = kn.Atoms(3, names=["A", "B", "C"], types=["x", "y", "y"], ids=[9, 3, 4], bonds=[[0, 1]], guessed=["types"])
    with kn.Writer(tmp_path / "in.h5md", 3, atoms=atoms) as out:
        out.write(np.zeros((6, 3, 3)), step=range(6), time=np.arange(6.0))
    parts = kn.split(tmp_path / "in.h5md", tmp_path / "parts", parts=2).paths
    kn.join(parts, tmp_path / "joined.h5md")
    for path in (*parts, tmp_path / "joined.h5md"):
        assert kn.read_atoms(path) == atoms


def test_a_selection_by_a_topology_keeps_its_names(tmp_path: Path) -> None:
    import MDAnalysis
    from MDAnalysisTests.datafiles import DCD, PSF

    universe = MDAnalysis.Universe(PSF)
    with kn.Writer(tmp_path / "in.h5md", universe.atoms.n_atoms) as out:
        out.write(kn.open(DCD).read(frames=[0, 1]))
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select="resid 5:9 and not name H*", topology=PSF)
    expected = universe.select_atoms("resid 5:9 and not name H*")
    found = atoms_of(tmp_path / "out.h5md")
    assert found is not None
    np.testing.assert_array_equal(found.names, expected.names)
    np.testing.assert_array_equal(found.masses, expected.masses)
    np.testing.assert_array_equal(found.charges, expected.charges)
    np.testing.assert_array_equal(found.resids, expected.resids)
    np.testing.assert_array_equal(found.resnames, expected.resnames)
    assert kn.open(tmp_path / "out.h5md").select("name CA").n_atoms == 5


def test_rounding_without_compression_is_noted(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md")
    with pytest.warns(kn.Note, match="without compression max_error saves nothing"):
        done = kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", max_error=0.01, compression=None)
    assert any("saves nothing" in note for note in done.notes)
    done = kn.repack(tmp_path / "in.h5md", tmp_path / "small.h5md", max_error=0.01, compression="zstd")
    assert not any("saves nothing" in note for note in done.notes)


def test_selections_that_cannot_be(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md")
    with pytest.raises(kn.ArgumentError, match="twice"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select=[1, 1])
    with pytest.raises(kn.OutOfRangeError):
        kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", select=[20])
    next(case for case in CASES if case.name == "id_order_changes").write(tmp_path / "moving.h5md")
    with pytest.raises(kn.ArgumentError, match="particles change their places"):
        kn.repack(tmp_path / "moving.h5md", tmp_path / "out.h5md", select=[0])
    assert not (tmp_path / "out.h5md").exists()


# -- refused, and leaves nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "rows"}, "layout is one of frames, atoms, contiguous, keep"),
        ({"layout": (0, 1, 3)}, "a chunk shape is"),
        ({"layout": "contiguous", "compression": "gzip"}, "cannot be compressed"),
        ({"compression": "rar"}, "compression is None or one of"),
        ({"level": 3}, "needs compression="),
        ({"max_error": -1.0}, "max_error is a positive number"),
        ({"max_error": 0.1, "unit": "mile"}, "unit of max_error"),
        ({"memory": "lots"}, "memory is"),
        ({"workers": 0}, "workers must be"),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    make_h5md(tmp_path / "in.h5md")
    with pytest.raises(kn.ArgumentError, match=message):
        kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", **options)
    assert os.listdir(tmp_path) == ["in.h5md"]


def test_files_that_cannot_be(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md")
    before = (tmp_path / "in.h5md").read_bytes()
    with pytest.raises(kn.ArgumentError, match="is the file that is read"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "in.h5md", overwrite=True)
    (tmp_path / "there.h5md").write_text("mine")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "there.h5md")
    assert (tmp_path / "there.h5md").read_text() == "mine"
    with pytest.raises(kn.FileNotFound, match="folder"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "no/out.h5md")
    with pytest.raises(kn.FileNotFound):
        kn.repack(tmp_path / "missing.h5md", tmp_path / "out.h5md")
    next(case for case in CASES if case.name == "mdtraj").write(tmp_path / "mdtraj.h5")
    with pytest.raises(kn.UnsupportedFormatError, match="not H5MD"):
        kn.repack(tmp_path / "mdtraj.h5", tmp_path / "out.h5md")
    assert (tmp_path / "in.h5md").read_bytes() == before
    assert not (tmp_path / "out.h5md").exists()


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", n_frames=200, n_atoms=5000)

    def interrupt(done: int, total: int) -> None:
        if done > total // 4:
            raise KeyboardInterrupt

    for target in ("out.h5md", "in2.h5md"):
        with pytest.raises(KeyboardInterrupt):
            kn.repack(tmp_path / "in.h5md", tmp_path / target, memory="16 MiB", progress=interrupt)
    assert os.listdir(tmp_path) == ["in.h5md"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", n_frames=100, n_atoms=5000)
    code = (
        "import resource, signal, sys, kinema as kn\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: kn.repack('in.h5md', 'out.h5md')\n"
        "except kn.FileIOError as error: print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60
    )
    assert "out.h5md: cannot write" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == ["in.h5md"]


def test_what_was_written_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_h5md(tmp_path / "in.h5md", n_frames=30)
    encode = encoding._core.encode_chunks

    def spoilt(*arguments: Any) -> Any:
        chunks = encode(*arguments)
        offset, data = chunks[0]
        return [(offset, bytes([data[0] ^ 1]) + data[1:]), *chunks[1:]]

    monkeypatch.setattr(encoding._core, "encode_chunks", spoilt)
    with pytest.raises(kn.CorruptFileError, match="does not hold what was written"):
        kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", layout=(4, 7, 3))
    assert os.listdir(tmp_path) == ["in.h5md"]
    assert not kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", layout=(4, 7, 3), verify=False).verified


def test_memory_is_bounded(tmp_path: Path) -> None:
    n_frames, n_atoms = 300, 40_000  # 144 MB
    with h5py.File(tmp_path / "in.h5md", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        value = file.create_dataset(
            "particles/all/position/value", (n_frames, n_atoms, 3), "<f4", chunks=(1, n_atoms, 3)
        )
        value.attrs["unit"] = "nm"
        for frame in range(0, n_frames, 10):
            value[frame] = frame
    code = (
        "import resource, kinema as kn, kinema.files.repack\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "kn.repack('in.h5md', 'out.h5md', layout='atoms', memory='48 MiB', workers=2)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    scale = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * scale < 110 << 20  # the limit, and what h5py and the threads take


def test_tiles_cover_everything_once_in_whole_chunks() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        shape = (*(int(n) for n in rng.integers(1, 40, 2)), 3)
        chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
        source = tuple(int(rng.integers(1, n + 1)) for n in shape)
        limit = int(rng.integers(1, 5000))
        seen = np.zeros(shape[:2], int)
        for start, stop, first, last in transfer._tiles(Storage(shape, np.dtype("<f4"), chunks), limit, source):
            seen[start:stop, first:last] += 1
            assert start % chunks[0] == 0
            assert first % chunks[1] == 0
            one_chunk = chunks[0] * chunks[1] * 12
            assert (stop - start) * (last - first) * 12 <= max(limit, one_chunk)
        assert (seen == 1).all()
