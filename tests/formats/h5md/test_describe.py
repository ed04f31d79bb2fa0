"""Refusals, warnings and choices of `describe`: groups, roots, units, joins, boxes, ids."""

import pickle
import re

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats.h5md import H5mdOptions, describe, groups_of
from kinema.formats.h5md.description import ABSENT, FORBIDDEN
from kinema.formats.h5md.read import id_order
from kinema.testing.h5md_files import CASES, add_box, add_element, small_file, start_h5md, walk

N_FRAMES, N = 7, 5
BY_NAME = {case.name: case for case in CASES}
STEPS = 10 * np.arange(N_FRAMES)


def options(**given):
    return H5mdOptions(**given)


# -- groups and roots -------------------------------------------------------------------------------------------


def test_groups_are_listed(tmp_path):
    path = tmp_path / "groups.h5md"
    BY_NAME["group_by_name"].write(path)
    found = groups_of(path)
    assert [(group.name, group.n_atoms, group.n_frames) for group in found] == [
        ("particles/protein", N, N_FRAMES),
        ("particles/solvent", N + 1, N_FRAMES),
        ("particles/walls", 0, 0),
    ]
    assert found[0].fields == ("positions",)
    assert found[2].fields == ()


def test_several_groups_and_none_chosen(tmp_path):
    path = tmp_path / "groups.h5md"
    BY_NAME["group_by_name"].write(path)
    with pytest.raises(kn.ArgumentError, match=r"\(particles/protein, particles/solvent\); choose one with particles="):
        describe(path)
    with pytest.raises(kn.ArgumentError, match=r"no particles group 'ions', only particles/protein, particles/solvent"):
        describe(path, options(particles="ions"))


@pytest.mark.parametrize("name", ["all", "particles/all", "/particles/all", "/particles/all/"])
def test_spellings_of_a_group(tmp_path, name):
    assert describe(small_file(tmp_path), options(particles=name)).group == "particles/all"


def test_group_below_another_root(tmp_path):
    path = tmp_path / "root.h5md"
    BY_NAME["root_below"].write(path)
    for name in ("all", "particles/all", "/simulations/run 1/particles/all"):
        assert describe(path, options(particles=name)).group == "simulations/run 1/particles/all"
    assert [group.name for group in groups_of(path)] == ["particles/all"]


def test_a_group_without_vectors_is_no_choice(tmp_path):
    def fill(group):
        group.parent.create_group("walls")["mass"] = [1.0]

    found = describe(small_file(tmp_path, fill))
    assert found.group == "particles/all"
    assert any("particles/walls" in remark for remark in found.remarks)


def test_roots(tmp_path):
    path = tmp_path / "roots.h5md"
    BY_NAME["two_roots"].write(path)
    with pytest.raises(kn.ArgumentError, match=r"several H5MD structures \(/first, /second\); choose one with root="):
        describe(path)
    with pytest.raises(kn.ArgumentError, match="third is not an H5MD root"):
        describe(path, options(root="third"))


def test_no_particles(tmp_path):
    path = tmp_path / "empty.h5md"
    with h5py.File(path, "w") as file:
        start_h5md(file)
    with pytest.raises(
        kn.ArgumentError, match="no particles group holds positions, velocities or forces; there is none"
    ):
        describe(path)


def test_variant(tmp_path):
    assert describe(small_file(tmp_path, creator="HALMD")).variant == "H5MD 1.1, group all, written by HALMD 1.0"


# -- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"axis": "masses"}, "axis must be one of 'positions', 'velocities', 'forces', found 'masses'"),
        ({"absent": "skip"}, "absent must be one of"),
        ({"absent_particles": "hold"}, "absent_particles must be one of"),
        ({"units": {"mass": "u"}}, "units= is given for length, time, velocity, force, found 'mass'"),
        ({"units": {"length": "ps"}}, "unit 'ps' is not one of length"),
        ({"units": {"length": "sigma"}}, "symbol that is not known"),
        ({"dataset": "x", "particles": "all"}, "particles= and dataset= cannot be combined"),
        ({"axis": "forces"}, "particles/all has no forces for axis=, only positions"),
        ({"dataset": "x"}, "no data set 'x'"),
    ],
)
def test_options_that_do_not_fit(tmp_path, given, message):
    with pytest.raises(kn.ArgumentError, match=message):
        describe(small_file(tmp_path), options(**given))


def test_options_are_picklable():
    given = options(units={"length": "nm"}, absent="hold")
    assert pickle.loads(pickle.dumps(given)) == given


# -- units ------------------------------------------------------------------------------------------------------


def test_positions_without_unit(tmp_path):
    path = small_file(tmp_path, unit=None)
    with pytest.raises(
        kn.ArgumentError, match=r'position has no unit; give one, as in units=\{"length": "nm", "time": "ps"\}'
    ):
        describe(path)
    assert describe(path, options(units={"length": "nm"})).positions.scale == 10.0


def test_unknown_unit(tmp_path):
    path = small_file(tmp_path, unit="sigma")
    with pytest.raises(
        kn.ArgumentError, match=r'position: unit \'sigma\' .*; give one, as in units=\{"length": "nm"\}'
    ):
        describe(path)
    found = describe(path, options(units={"length": "angstrom"}))
    assert found.positions.scale == 1.0
    assert any("'sigma' of the file is replaced by the given 'angstrom'" in warning for warning in found.warnings)


def test_the_users_unit_counts_more_and_is_said(tmp_path):
    found = describe(small_file(tmp_path), options(units={"length": "Angstrom"}))
    assert found.positions.scale == 1.0
    assert len(found.warnings) == 1
    assert not describe(small_file(tmp_path), options(units={"length": "nanometer"})).warnings


def test_velocities_and_times_without_unit_are_left_out(tmp_path):
    path = small_file(
        tmp_path,
        lambda group: add_element(group, "velocity", walk(N_FRAMES, N), steps=group["position/step"]),
        times=STEPS * 0.5,
        time_unit=None,
    )
    found = describe(path)
    assert found.velocities is None
    assert found.times is None
    assert found.steps.tolist() == STEPS.tolist()
    assert any('units={"velocity": "nm ps-1"}' in warning for warning in found.warnings)
    assert any('units={"time": "ps"}' in warning for warning in found.warnings)
    given = describe(path, options(units={"length": "nm", "time": "fs"}))
    assert given.velocities.scale == 1e4
    assert given.time_scale == 1e-3


def test_gromacs_without_units_says_so(tmp_path):
    path = tmp_path / "gromacs.h5md"
    BY_NAME["gromacs_without_units"].write(path)
    found = describe(path, options(absent="nan"))
    assert found.positions.scale == 10.0
    assert sum("which its program always writes" in warning for warning in found.warnings) == 3


# -- joins ------------------------------------------------------------------------------------------------------


def test_policies_for_absent_rows(tmp_path):
    path = small_file(
        tmp_path, lambda group: add_element(group, "velocity", walk(2, N), steps=[20, 45], unit="nm ps-1")
    )
    assert describe(path).velocities.rows.tolist() == [FORBIDDEN, FORBIDDEN, 0, *[FORBIDDEN] * 4]
    assert describe(path, options(absent="nan")).velocities.rows.tolist() == [ABSENT, ABSENT, 0, *[ABSENT] * 4]
    assert describe(path, options(absent="hold")).velocities.rows.tolist() == [ABSENT, ABSENT, 0, 0, 0, 1, 1]


def test_equal_steps_need_no_table_of_rows(tmp_path):
    def fill(group):
        add_element(group, "velocity", walk(N_FRAMES, N), steps=STEPS, unit="nm ps-1")
        add_element(group, "force", walk(N_FRAMES + 2, N), steps=10, unit="kJ mol-1 nm-1")

    found = describe(small_file(tmp_path, fill))
    assert found.velocities.rows is None
    assert found.forces.rows is None


def test_shorter_velocities_of_the_same_steps(tmp_path):
    def fill(group):
        add_element(group, "velocity", walk(N_FRAMES - 2, N), steps=group["position/step"], unit="nm ps-1")

    found = describe(small_file(tmp_path, fill), options(absent="hold"))
    assert found.n_frames == N_FRAMES
    assert found.velocities.rows.tolist() == [0, 1, 2, 3, 4, 4, 4]
    assert any("different length" in remark for remark in found.remarks)


@pytest.mark.parametrize("steps", [[0, 1, 2, 2, 3, 4, 5], [0, 0, 0, 0, 0, 0, 0]])
def test_steps_that_repeat_are_no_reason_to_refuse_but_to_join_by(tmp_path, steps):
    assert describe(small_file(tmp_path, steps=steps)).steps.tolist() == steps
    path = small_file(
        tmp_path, lambda group: add_element(group, "velocity", walk(2, N), steps=[0, 2], unit="nm ps-1"), steps=steps
    )
    found = describe(path)
    assert found.velocities is None and found.n_frames == N_FRAMES
    assert any("two rows of the same step" in warning and "left out" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([0, 10, 20, 15, 40, 50, 60], "step decreases at row 3: 15 after 20; .*dataset="),
        (np.array([0, 1, 2.5, 3, 4, 5, 6]), "step has an invalid step at row 2: 2.5"),
        (np.array([0, 1, np.nan, 3, 4, 5, 6]), "an invalid step at row 2: nan"),
        (np.array([0, 1, 2, 3, 4, 5, 2**64 - 1], np.uint64), "an invalid step at row 6: 18446744073709551615"),
        (-5, "interval between rows, expected more than zero, found -5"),
        (2**62, "no 64-bit integer"),
        (np.zeros((2, 2)), "not a scalar or a list"),
    ],
)
def test_steps_that_are_none(tmp_path, steps, message):
    path = small_file(tmp_path, steps=steps)
    with pytest.raises(kn.CorruptFileError, match=message):
        describe(path)
    found = describe(path, options(dataset="particles/all/position/value"))
    assert (found.n_frames, found.steps) == (N_FRAMES, None)


def test_whole_floats_are_steps(tmp_path):
    found = describe(small_file(tmp_path, steps=STEPS.astype(np.float64)))
    assert found.steps.dtype == np.int64
    assert found.steps.tolist() == STEPS.tolist()


def test_joined_by_time_where_steps_are_missing(tmp_path):
    def fill(group):
        add_element(group, "velocity", walk(2, N), times=[10.0, 30.0], unit="nm ps-1")

    path = small_file(tmp_path, fill, times=STEPS * 1.0)
    assert describe(path, options(absent="nan")).velocities.rows.tolist() == [-1, 0, -1, 1, -1, -1, -1]
    path = small_file(
        tmp_path, lambda group: group.create_dataset("velocity/value", data=walk(2, N)).attrs.update(unit="nm/ps")
    )
    found = describe(path)
    assert found.velocities is None and found.n_frames == N_FRAMES
    assert any("cannot be joined: step is missing; it is left out" in warning for warning in found.warnings)


# -- shapes and boxes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_other_dimensions(tmp_path, dimension):
    path = small_file(tmp_path, values=np.zeros((N_FRAMES, N, dimension), np.float32))
    with pytest.raises(
        kn.UnsupportedFormatError, match=f"particles/all has {dimension} dimensions, and only 3 are read"
    ):
        describe(path)
    found = describe(small_file(tmp_path, lambda group: add_box(group, dimension=dimension)))
    assert found.n_frames == N_FRAMES and found.cell.rows.tolist() == [ABSENT] * N_FRAMES
    assert any(f"has {dimension} dimensions" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (
            lambda group: add_element(group, "velocity", walk(N_FRAMES, N + 1), steps=STEPS, unit="nm/ps"),
            "velocity has .* particles, and .*position .*: it is left out",
        ),
        (
            lambda group: add_element(group, "velocity", np.zeros((7, N)), steps=STEPS, unit="nm/ps"),
            "frames x atoms x 3",
        ),
        (lambda group: add_element(group, "force", np.zeros((7, N, 3), complex), steps=STEPS), "holds no numbers"),
        (lambda group: add_element(add_box(group), "edges", np.ones(4), unit="nm"), r"edges has for each box \(4,\)"),
        (lambda group: add_element(add_box(group), "edges", np.ones((7, 3, 2)), steps=STEPS), r"\(3, 2\)"),
        (lambda group: add_box(group, ("periodic", "open", "none")), "boundary must be periodic or none"),
        (lambda group: add_box(group, ("periodic", "none")), "boundary must be periodic or none"),
        (lambda group: group.__setitem__("velocity", h5py.SoftLink("/nowhere")), "link to something that is missing"),
        (
            lambda group: group.__setitem__("force", h5py.ExternalLink("none.h5", "x")),
            "link to something that is missing",
        ),
        (lambda group: group.__setitem__("velocity/value", 3.0), "not a data set with a dimension of frames"),
        (lambda group: group.__setitem__("velocity", np.dtype("f4")), "neither a group nor a data set"),
    ],
)
def test_what_is_wrong_beside_the_positions_is_noted(tmp_path, fill, message):
    """Positions are read; what makes no sense is left out, a cell that makes none is not known."""
    found = describe(small_file(tmp_path, fill))
    assert (found.n_atoms, found.n_frames) == (N, N_FRAMES)
    assert found.positions is not None and found.velocities is None and found.forces is None
    assert [warning for warning in found.warnings if re.search(message, warning)], found.warnings
    assert str(tmp_path) not in " ".join(found.warnings)
    if "edges" in message or "boundary" in message or "(3, 2" in message:
        assert found.cell.rows.tolist() == [ABSENT] * N_FRAMES


def test_what_is_asked_for_and_wrong_is_an_error(tmp_path):
    path = small_file(tmp_path, lambda group: group.__setitem__("velocity", np.dtype("f4")))
    with pytest.raises(kn.CorruptFileError, match="neither a group nor a data set") as raised:
        describe(path, options(axis="velocities"))
    assert raised.value.path == str(path)


def test_periodic_box_without_edges(tmp_path):
    found = describe(small_file(tmp_path, add_box))
    assert found.cell is None
    assert any("periodic but has no edges" in warning for warning in found.warnings)


def test_partly_periodic_box_is_remarked(tmp_path):
    path = tmp_path / "slab.h5md"
    BY_NAME["box_slab"].write(path)
    assert any("periodic along a, b only" in remark for remark in describe(path).remarks)


def test_box_without_boundary(tmp_path):
    def fill(group):
        group["box/edges"] = np.ones(3)
        group["box/edges"].attrs["unit"] = "nm"

    found = describe(small_file(tmp_path, fill))
    assert found.cell.fixed
    assert any("does not say its boundary" in warning for warning in found.warnings)


def test_one_word_for_all_boundaries(tmp_path):
    def fill(group):
        group["box/edges"] = np.ones(3)
        group["box"].attrs["boundary"] = "nonperiodic"

    assert describe(small_file(tmp_path, fill)).cell is None


def test_zero_steps_of_the_box_are_no_box(tmp_path):
    def fill(group):
        edges = np.ones((0, 3))
        add_element(add_box(group), "edges", edges, steps=STEPS[:0], unit="nm", maxshape=(None, 3))

    assert describe(small_file(tmp_path, fill)).cell is None


# -- ids and images ---------------------------------------------------------------------------------------------


def test_unwrapping_needs_images_and_a_box(tmp_path):
    with pytest.raises(kn.ArgumentError, match="has no image, so that unwrap=True"):
        describe(small_file(tmp_path), options(unwrap=True))
    path = small_file(tmp_path, lambda group: add_element(group, "image", np.zeros((7, N, 3), int), steps=STEPS))
    with pytest.raises(kn.ArgumentError, match="has no periodic box"):
        describe(path, options(unwrap=True))

    def fill(group):
        add_element(group, "image", np.zeros((3, N, 3), int), steps=STEPS[:3])
        add_element(add_box(group), "edges", np.ones(3), unit="nm")

    with pytest.raises(kn.CorruptFileError, match="image has no values for row 3"):
        describe(small_file(tmp_path, fill), options(unwrap=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda ids: ids.__setitem__((3, 0), 99),
            "row 3 .*particle 99, which is neither in the first row nor in the last",
        ),
        (lambda ids: ids.__setitem__((3, 0), ids[3, 1]), "row 3 two particles of one id"),
    ],
)
def test_ids_that_contradict_themselves(tmp_path, monkeypatch, change, message):
    # as if all rows were too large to be looked at when the file is opened
    monkeypatch.setattr(id_order, "_READ_AT_ONCE", 1)
    ids = np.stack([np.random.default_rng(i).permutation(N) for i in range(N_FRAMES)])
    change(ids)
    path = small_file(tmp_path, lambda group: add_element(group, "id", ids, steps=STEPS))
    found = describe(path)
    assert found.positions.reader(np.array([0, 6])).shape == (2, N, 3)
    with pytest.raises(kn.CorruptFileError, match=message):
        found.positions.reader(np.arange(N_FRAMES))


def test_absent_particles_as_an_error(tmp_path):
    path = tmp_path / "absent.h5md"
    expected = BY_NAME["id_with_absent_particles"].write(path)
    found = describe(path, options(absent_particles="error"))
    np.testing.assert_allclose(found.positions.reader(np.array([2])) * 10, expected.positions[[2]], rtol=1e-6)
    with pytest.raises(kn.CorruptFileError, match=r"id has at row 3 no particle \d+, expected all 5"):
        found.positions.reader(np.array([3]))


def test_more_particles_than_columns(tmp_path):
    ids = np.array([[0, 1, 2, 3, 4], [5, 1, 2, 3, 4], [5, 6, 0, 1, -1], *[[0, 1, 2, 3, 4]] * 4])
    path = small_file(tmp_path, lambda group: add_element(group, "id", ids, steps=STEPS, fillvalue=-1))
    found = describe(path)
    assert found.n_atoms == 7
    positions = found.positions.reader(np.arange(N_FRAMES))
    assert np.isnan(positions).all(axis=2).sum(axis=1).tolist() == [2, 2, 3, 2, 2, 2, 2]
    np.testing.assert_array_equal(positions[2, 6], walk(N_FRAMES, N)[2, 1])


# -- other HDF5 files -------------------------------------------------------------------------------------------


def test_unknown_structure_names_its_data_sets(tmp_path):
    path = tmp_path / "unknown.h5"
    with h5py.File(path, "w") as file:
        file["a/pos"] = np.zeros((4, 6))
        file["b"] = np.zeros((4, 2, 3))
        file["text"] = "x"
        file["scalar"] = 3.0
    with pytest.raises(kn.UnsupportedFormatError, match=r"dataset=: /a/pos \(4, 6\), /b \(4, 2, 3\)$"):
        describe(path)
    with pytest.raises(kn.ArgumentError, match=r"data set /scalar has float64 \(\), expected numbers"):
        describe(path, options(dataset="scalar"))
    assert describe(path, options(dataset="a/pos")).n_atoms == 2


def test_bare_data_set_without_unit_is_said(tmp_path):
    path = tmp_path / "bare.h5"
    BY_NAME["bare_without_unit"].write(path)
    assert any("taken as angstrom" in warning for warning in describe(path, options(dataset="/some/pos")).warnings)


def test_options_of_h5md_are_refused_for_netcdf(tmp_path):
    path = tmp_path / "amber.h5"
    with h5py.File(path, "w") as file:
        file.attrs["Conventions"] = "AMBER"
        file["coordinates"] = np.zeros((2, 4, 3))
    assert describe(path).format == "NetCDF"
    with pytest.raises(kn.ArgumentError, match="particles= and unwrap= are for H5MD"):
        describe(path, options(particles="x"))
