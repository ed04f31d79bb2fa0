"""Stored topologies: the same answers, of the file as it is, and nothing that others may have changed."""

from __future__ import annotations

import json
import os
import stat
import sys
import warnings
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.model import stored_topology, topology
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology
from kinema.testing import KeeperTests, random_walk, write_dcd
from kinema.testing.keepers import settle
from kinema.testing.programs.children import start_child
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

N_RESIDUES = 1500

# MDAnalysis says it of each atom; the tests that expect it record it
pytestmark = pytest.mark.filterwarnings("ignore:Unknown masses are set:PendingDeprecationWarning")


def write_gro(path: Path, n_residues: int = N_RESIDUES, name: str = "CA") -> Path:
    """Residues of three atoms; masses follow from names by a guess."""
    names = ("N", name, "QQ")
    lines = [
        f"{residue % 99999:5d}{'ALA' if residue % 3 else 'SOL':<5s}{atom:>5s}{(3 * residue + place) % 99999:5d}"
        f"{residue / 10:8.3f}{place / 10:8.3f}{0:8.3f}"
        for residue in range(1, n_residues + 1)
        for place, atom in enumerate(names)
    ]
    path.write_text("\n".join(["a system", str(len(lines)), *lines, f"{5:10.5f}{5:10.5f}{5:10.5f}", ""]))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = write_gro(tmp_path / "a.gro")
    settle(made)
    return made


@pytest.fixture(autouse=True)
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that MDAnalysis reads. Tests have imported it, and no one has changed it."""
    names: list[str] = []
    load = topology._load

    def recorded(name: str) -> Any:
        names.append(name)
        return load(name)

    monkeypatch.setattr(topology, "_load", recorded)
    monkeypatch.setattr(stored_topology, "is_imported", lambda: False)
    return names


def opened(path: Path, index: str = "auto") -> Topology:
    return Topology(str(path), index=index)


def folder(kind: str) -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "kinema" / kind


def records(kind: str) -> list[Path]:
    return sorted(folder(kind).iterdir()) if folder(kind).exists() else []


class TestAtoms(KeeperTests):
    """The table of atoms is kept, or made again by MDAnalysis."""

    @pytest.fixture(autouse=True)
    def counted(self, loads: list[str]) -> None:
        self.loads = loads

    def make(self, folder: Path) -> Path:
        return write_gro(folder / "a.gro", 4000)

    def keep(self, path: Path) -> None:
        assert opened(path).n_atoms == 12_000

    def is_known(self, path: Path) -> bool:
        self.loads.clear()
        try:
            self.keep(path)
        except ArgumentError:
            return False  # the rewritten bytes may not be a number
        return not self.loads


class TestSelections(TestAtoms):
    """The atoms of a selection."""

    def keep(self, path: Path) -> None:
        assert len(opened(path).select("name CA and resname ALA")) > 2000


def test_the_second_reading_is_the_same(path: Path, loads: list[str]) -> None:
    def answers(index: str) -> tuple[Any, ...]:
        one = opened(path, index)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            chosen = one.select("protein and name CA")
            table = one.atoms
            notes = table[chosen].mass_notes()
            weights = table.mass_weights()
        said = {(str(two.message), two.category, two.lineno) for two in caught}
        return one.n_atoms, chosen.tolist(), notes, weights.tolist(), said, table

    first, second, without = answers("auto"), answers("auto"), answers("memory")
    assert len(loads) == 2
    assert first == second == without
    *_, said, table = second
    assert "guessed by MDAnalysis" in first[2][0]
    assert any("Unknown masses" in text for text, *_ in said), "a warning of reading comes again"
    # all of the table, and what it gives
    other = without[-1]
    assert table.columns == other.columns and table.guessed == other.guessed == {"masses", "types"}
    assert table.name == other.name == str(path)
    for column in table.columns:
        assert table.get(column).dtype == other.get(column).dtype
        assert table.get(column).tobytes() == other.get(column).tobytes()
    assert table.replace(resids=np.arange(table.n_atoms)) == other.replace(resids=np.arange(table.n_atoms))
    assert stat.S_IMODE(folder("atoms").stat().st_mode) == stat.S_IMODE(folder("selections").stat().st_mode) == 0o700


def test_bonds_and_ids_of_a_psf(adk_dcd: Any, loads: list[str]) -> None:
    first = opened(Path(adk_dcd.topology)).atoms
    second = opened(Path(adk_dcd.topology)).atoms
    assert loads == [str(adk_dcd.topology)]
    assert second == first and second is not first and {"bonds", "dihedrals", "charges"} <= set(second.columns)
    assert second == Atoms.from_mdanalysis(MDAnalysis.Universe(adk_dcd.topology))
    assert second[np.arange(100)] == first[np.arange(100)]


def test_what_is_used_and_what_is_stored(path: Path, loads: list[str]) -> None:
    for _ in range(2):
        opened(path, "memory").select("name CA")
    assert len(loads) == 2 and not folder("atoms").exists() and not folder("selections").exists()
    for _ in range(2):
        opened(path, "rebuild").select("name CA")
    assert len(loads) == 4 and len(records("atoms")) == len(records("selections")) == 1
    opened(path).select("name CA")
    assert len(loads) == 4
    opened(path, "memory").select("name CA")
    assert len(loads) == 5


KEPT = (
    "name CA", "not name CA and (resname SOL or resid 3:50 70)", "byres name CA", "same residue as index 7",
    "same resname as resid 3", "protein", "backbone", "bynum 4:9", "index 5 7", "id 3", "global name CA",
    "segid SYSTEM",
)  # fmt: skip
NOT_KEPT = ("type C", "mass 10:14", "same type as name CA", "same mass as name CA", "resnum 3", "name CA and type C")


def test_which_selections_are_kept(tmp_path: Path, loads: list[str]) -> None:
    """Each gives what MDAnalysis gives, also again; none by what was guessed, or by an attribute that is not listed."""
    # it is read dozens of times
    path = write_gro(tmp_path / "a.gro", 100)
    settle(path)
    universe = MDAnalysis.Universe(path)
    for number, text in enumerate(KEPT, 1):
        expected = universe.select_atoms(text).indices
        for _ in range(2):
            np.testing.assert_array_equal(opened(path).select(text), expected, err_msg=text)
        assert len(records("selections")) == number, text
    assert len(loads) == len(KEPT)
    for text in NOT_KEPT:
        np.testing.assert_array_equal(opened(path).select(text), universe.select_atoms(text).indices, err_msg=text)
    for text in (
        "around 3 name CA",
        "prop x > 3",
        "point 0 0 0 3",
        "same x as name CA",
        "name CA or sphzone 3 protein",
    ):
        for _ in range(2):
            with pytest.raises(ArgumentError, match="depends on coordinates"):
                opened(path).select(text)
    for text in ("chainID A", "nothing", "name"):
        with pytest.raises(ArgumentError):
            opened(path).select(text)
    assert len(records("selections")) == len(KEPT)


def test_what_a_process_has_imported_or_changed_is_not_kept(
    path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from MDAnalysis.core.selection import ProteinSelection

    # words of the language that a user changes after the topology was read
    one = opened(path)
    assert one.n_atoms == 3 * N_RESIDUES
    with monkeypatch.context() as patch:
        patch.setattr(ProteinSelection, "prot_res", {"SOL"})
        assert len(one.select("protein")) == N_RESIDUES // 3 * 3
    assert records("selections") == []
    # a Universe that was given away
    one.universe.atoms.names = "X"
    assert len(one.select("name X")) == 3 * N_RESIDUES
    assert records("selections") == []
    # before the topology was read
    records("atoms")[0].unlink()
    monkeypatch.setattr(stored_topology, "is_imported", lambda: True)
    loads.clear()
    for _ in range(2):
        opened(path).select("protein")
    assert len(loads) == 2 and records("atoms") == records("selections") == []


def test_formats_of_several_files_and_other_versions(
    path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.with_suffix(".xyz")
    other.write_text("1\n\nC 0 0 0\n")
    settle(other)
    opened(other).select("index 0")
    assert records("atoms") == []
    opened(path).select("name CA")
    loads.clear()
    installed = stored_topology.installed_mdanalysis()
    assert installed is not None and installed.version == MDAnalysis.__version__
    monkeypatch.setattr(stored_topology, "installed_mdanalysis", lambda: installed._replace(version="0.0.0"))
    opened(path).select("name CA")
    assert loads == [str(path)] and len(records("atoms")) == 1
    monkeypatch.setattr(stored_topology, "installed_mdanalysis", lambda: None)
    for one in (*records("atoms"), *records("selections")):
        one.unlink()
    opened(path).select("name CA")
    assert records("atoms") == records("selections") == []


def test_a_file_that_changes_after_its_table_was_used(path: Path) -> None:
    opened(path).select("name CA")
    one = opened(path)
    assert one.atoms.names[1] == "CA"
    write_gro(path, name="CB")
    with pytest.raises(CorruptFileError, match="has changed since its atoms were read"):
        one.select("name QQ")
    assert len(opened(path).select("name CB")) == N_RESIDUES


def changed(good: bytes, change: Callable[[dict[str, Any]], None], columns: bytes | None = None) -> bytes:
    """A record with another head, or other arrays, and a true checksum."""
    (length,) = np.frombuffer(good, "<u4", 1, 12)
    head = json.loads(good[16 : 16 + length])
    change(head)
    text = json.dumps(head).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    arrays = good[16 + length : -16] if columns is None else columns
    data = good[:12] + np.uint32(len(text)).tobytes() + text + arrays
    return data + blake2b(data, digest_size=16).digest()


def test_damaged_and_forged_records_are_not_used_and_noted(path: Path, loads: list[str]) -> None:
    expected = opened(path).select("name CA")
    (atoms,), (selection,) = records("atoms"), records("selections")
    good = {atoms: atoms.read_bytes(), selection: selection.read_bytes()}
    forged = {
        atoms: [
            changed(good[atoms], lambda head: head["values"].update(n_atoms=5)),
            changed(good[atoms], lambda head: head["values"]["words"].update(names=["N"])),
            changed(good[atoms], lambda head: head["values"]["words"].update(names=[1, 2, 3])),
            changed(good[atoms], lambda head: head["values"].update(columns=["__class__"])),
            changed(good[atoms], lambda head: head["values"].update(warnings=[["SystemExit", "", "", 1]])),
        ],
        selection: [
            changed(good[selection], lambda head: head["values"].update(n_atoms=5)),
            changed(good[selection], lambda head: None, good[selection][-16 - 4 * len(expected) : -16][::-1]),
        ],
    }
    for place, content in good.items():
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        for wrong in (b"", content[:-1], bytes(flipped), b"cos\nsystem\n(S'touch x'\ntR.", *forged[place]):
            place.write_bytes(wrong)
            loads.clear()
            with pytest.warns(kn.Note, match="was not used, and is made again"):
                assert opened(path).select("name CA").tolist() == expected.tolist()
            assert loads == [str(path)]
            assert place.read_bytes() == content
    # a folder that others may write into
    folder("atoms").chmod(0o777)
    loads.clear()
    with pytest.warns(kn.Note, match="is not this user's alone"):
        opened(path).select("name CA")
    assert loads == [str(path)] and stat.S_IMODE(folder("atoms").stat().st_mode) == 0o700


COMMAND = """
import json, sys
from kinema.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(json.dumps([end.code, "MDAnalysis" in sys.modules, "h5py" in sys.modules, "matplotlib" in sys.modules]))
"""


@pytest.mark.processes
def test_the_second_command_imports_no_mdanalysis_and_says_the_same(path: Path, tmp_path: Path) -> None:
    frames = tmp_path / "a.dcd"

    write_dcd(frames, random_walk(5, 3 * N_RESIDUES))

    def ran(*more: str) -> tuple[str, str, list[Any], bytes]:
        out = tmp_path / "out.csv"
        words = ["rgyr", str(frames), "-s", str(path), "--select", "name CA", "-o", str(out), "--json", *more]
        child = start_child([sys.executable, "-c", COMMAND, *words])
        stdout, stderr = child.communicate(timeout=120)
        assert child.returncode == 0, stderr
        result, imported = stdout.strip().splitlines()
        code, *loaded = json.loads(imported)
        assert code == 0
        lines = [line for line in out.read_bytes().splitlines() if not line.startswith(b"#")]
        said = json.loads(result)
        return json.dumps([said["notes"], said["mean"]]), stderr, loaded, b"\n".join(lines)

    first, second, without = ran(), ran(), ran("--no-stored")
    assert first[2][0] and without[2][0] and second[2] == [False, False, False]
    assert first[:2] == second[:2] == without[:2]
    assert first[3] == second[3] == without[3]
    assert "guessed by MDAnalysis" in second[1]
