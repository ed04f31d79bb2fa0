"""Declarations: arguments as data, the command that is made of them, several quantities in memory and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import kinema as kn
from kinema import _core
from kinema.analysis import Option, PerFrameAnalysis, Quantity, arguments_of
from kinema.analysis.declaration import MassWeights, takes_select
from kinema.cli.command_line import prepare
from kinema.cli.commands.analyses import command_of
from kinema.model.selection.atom_tuples import atom_tuples, read_atom_tuples
from kinema.testing import random_walk, write_dcd
from kinema.transforms.arguments import selections_of


class Spread(PerFrameAnalysis):
    """Radii of the atoms of all pairs; of each kind of argument one."""

    command_name = "spread"
    summary = "Spread of pairs of atoms."
    quantities = (Quantity("radius", "angstrom", "radius"), Quantity("about", "1", "radius about an axis", "x, y, z"))
    reference = "none"
    made: Any = None

    def __init__(
        self,
        trajectory: kn.Trajectory,
        pairs: Annotated[Any, Option("--pairs", "File of pairs.", takes="tuples", atoms_each=2)],
        others: Annotated[Any, Option("--others", "More.", takes="list of atoms", by_group="--other-groups")] = None,
        near: Annotated[Any, Option("--near", "Atoms.", takes="atoms")] = None,
        most: Annotated[float, Option("--most", "A length.", least=0.0, most=10.0, unit="angstrom")] = 2.5,
        bins: Annotated[int, Option("--bins", "A number.", least=1)] = 3,
        only_once: Annotated[bool, Option("--only-once/--often", "A flag.")] = True,
        weights: MassWeights = None,
        note: str = "no option",
    ) -> None:
        self.pairs = atom_tuples(pairs, 2, trajectory.n_atoms, "pairs")
        self.others = selections_of(trajectory, others, "others")
        super().__init__(trajectory, np.unique(self.pairs), pairs=self.pairs, most=most)
        self.given = (near, most, bins, only_once, weights)
        type(self).made = self

    @property
    def selections(self) -> Any:
        return (self.selection, *self.others)

    def _kernel(self) -> _core.Kernel:
        return _core.Kernel("rgyr", self.trajectory.n_atoms, atoms=self.selection.indices, axes=True)

    def _columns(self) -> list[tuple[str, Quantity]]:
        radius, about = self.quantities
        return [("radius", radius), *((f"about {axis}", about) for axis in "xyz")]


def test_arguments_are_data() -> None:
    found = arguments_of(Spread)
    assert [(one.name, one.flag, one.kind) for one in found] == [
        ("pairs", "--pairs", "tuples"),
        ("others", "--others", "list of atoms"),
        ("near", "--near", "atoms"),
        ("most", "--most", "number"),
        ("bins", "--bins", "integer"),
        ("only_once", "--only-once", "flag"),
        ("weights", "--weights", "choice"),
    ]
    assert [one.required for one in found] == [True] + [False] * 6
    assert (found[3].default, found[3].help, found[6].choices) == (2.5, "A length.", ("none", "mass"))
    assert found[6].written_default == "none"
    assert not takes_select(Spread) and takes_select(kn.RMSD)


def test_an_option_of_no_kind_is_refused() -> None:
    class Unkind(Spread):
        def __init__(self, trajectory: Any, when: Annotated[bytes, Option("--when", "Bytes.")] = b"") -> None: ...

    with pytest.raises(TypeError, match=r"Unkind\.when: an option of type"):
        arguments_of(Unkind)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(12, 9))
    (tmp_path / "pairs.csv").write_text("; pairs\n1 2\n\n4 9 # the last\n")
    (tmp_path / "a.ndx").write_text("[ two ]\n3 5\n")
    return tmp_path


def called(words: list[str]) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command_of(Spread))
    return CliRunner().invoke(app, words, obj=prepare(["spread", *words]))


def test_every_kind_of_option_reaches_the_constructor(files: Path) -> None:
    done = called(["a.dcd", "--pairs", "pairs.csv"])
    assert done.exit_code == 0, done.output
    assert "radius of 4 atoms: mean" in done.output
    np.testing.assert_array_equal(Spread.made.pairs, [[0, 1], [3, 8]])
    assert Spread.made.given == (None, 2.5, 3, True, None) and Spread.made.others == ()
    words = "--near all --most 3 --bins 7 --often --weights mass -n a.ndx --other-groups two --others all"
    done = called(["a.dcd", "--pairs", "pairs.csv", *words.split()])
    assert done.exit_code == 0, done.output
    assert Spread.made.given == ("all", 3.0, 7, False, "mass")
    assert [one.indices.tolist() for one in Spread.made.others] == [list(range(9)), [2, 4]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "Missing option '--pairs'"),
        ("--pairs pairs.csv --most 11", "expected a number from 0 to 10"),
        ("--pairs pairs.csv --bins 0", "expected a whole number from 1"),
        ("--pairs pairs.csv --select all", "No such option: --select"),
        ("--pairs pairs.csv --other-groups two", "--other-groups names groups of an index file; give the file with -n"),
        ("--pairs pairs.csv -o pairs.csv", "pairs.csv: is the file that is read"),
        ("--pairs nothing.txt", "nothing.txt: cannot read the file of atom numbers"),
        ("--pairs a.ndx", "a.ndx: line 1: expected 2 atom numbers from 1 on, found '[ two ]'"),
    ],
)
def test_what_is_refused(files: Path, words: str, expected: str) -> None:
    done = called(["a.dcd", *words.split()])
    assert done.exit_code != 0
    assert expected in done.output + str(done.exception)


def test_several_quantities_in_memory_and_in_a_file(files: Path) -> None:
    traj = kn.open("a.dcd", stored=False)
    one = Spread(traj, [[0, 1], [3, 8]]).run()
    assert one.results.keys() == ["radius", "about", "frames", "time", "values"]
    assert (one.results.radius.shape, one.results.about.shape) == ((12,), (12, 3))
    assert [column.label for column in one.table().columns] == [
        "frame", "time (ps)", "radius (angstrom)", "about x (1)", "about y (1)", "about z (1)"
    ]  # fmt: skip
    stored = Spread(traj, [[0, 1], [3, 8]]).run(out="rows.h5").results
    for key in (3, -1, slice(2, 9, 3), (slice(None), 1), (4, 2), [1, 5], ..., (..., 0)):
        np.testing.assert_array_equal(stored.about[key], one.results.about[key])
    for key in (3, slice(2, 9, 3), [1, 5], ...):
        np.testing.assert_array_equal(stored.radius[key], one.results.radius[key])
    assert (len(stored.about), stored.about.ndim, stored.radius.shape) == (12, 2, (12,))
    assert np.asarray(stored.radius).tobytes() == one.results.radius.tobytes()
    import h5py

    with h5py.File("rows.h5") as file:
        assert file["spread"].attrs["unit"] == "angstrom, 1, 1, 1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([[0, 9]], "atom 9 of row 0 is out of range"),
        ([[0, 1], [2, -1]], "atom -1 of row 1 is out of range"),
        ([[0, 1, 2]], r"of the shape \(n, 2\), found int64 \(1, 3\)"),
        ([[0, 1], [2]], r"of the shape \(n, 2\)"),
        ([[0.0, 1.0]], "found float64"),
        ([], r"of the shape \(n, 2\)"),
        ([[0, 1], [4, 4]], "row 1 names an atom twice: 4, 4"),
    ],
)
def test_tuples_of_atoms(given: Any, expected: str) -> None:
    with pytest.raises((kn.ArgumentError, kn.OutOfRangeError), match=expected):
        atom_tuples(given, 2, 9, "pairs")


@pytest.mark.parametrize("line", ["1", "1 2 3", "1 0", "1 -2", "1 2.0", "1 " + "9" * 30, "a b"])
def test_lines_of_atoms(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(f"1 2\n{line}\n")
    with pytest.raises(kn.CorruptFileError, match=r"pairs\.csv: line 2: expected 2 atom numbers from 1 on"):
        read_atom_tuples(path, 2)
