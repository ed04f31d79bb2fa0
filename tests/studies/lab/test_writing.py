"""`bench-write --lab`: the publication's order in virtual time, and a report that says that it is emulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinema.base.errors import ArgumentError
from kinema.cli.in_process import call_kinema
from kinema.studies.lab.platform import read_platform
from kinema.studies.write_strategies.design import WriteDesign


def test_the_order_of_the_publication_and_the_same_bits(tmp_path: Path) -> None:
    from kinema.studies.publications.figures import draw_machine_figure

    words = ("bench-write", "--lab", "lustre", "--particles", 880_000, "--ranks", "1,16,48", "--formats", "none")
    words += ("--stripes", 8)
    found = []
    for name in ("first", "second"):
        done = call_kinema(*words, "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
        found.append((tmp_path / name / "results.json").read_bytes())
    assert found[0] == found[1]
    assert "Emulated, not measured." in done.stdout and "lustre, 8 stripes" in done.stdout
    cells = {(one["records"], one["strategy"], one["ranks"]): one for one in json.loads(found[0])["cells"]}
    # a strategy that ignores hints has one cell
    assert len(cells) == 2 * 3 * 3
    for ranks in (16, 48):
        serial, collective, direct = (
            cells["ascii", name, ranks]["gib_per_second"] for name in ("serial", "mpiio-collective", "direct")
        )
        assert serial < collective < direct
        # three float64 in place of 73 characters, and no formatting
        assert cells["binary", "direct", ranks]["seconds"] < cells["ascii", "direct", ranks]["seconds"]
    (caption,) = draw_machine_figure([tmp_path / "first" / "results.json"]).texts
    assert "Emulated, with the parameters of the platform lustre" in caption.get_text().replace("\n    ", " ")


def test_what_is_not_emulated_is_refused(tmp_path: Path) -> None:
    from kinema.studies.lab.writing import WriteLaboratory

    lustre = read_platform("lustre")
    for design, laboratory, told in (
        ({}, {}, "records in the laboratory: expected ascii or binary, found netcdf"),
        ({"records": ("ascii",), "strategies": ("subfiles",)}, {}, "strategies in the laboratory: expected serial"),
        ({"records": ("ascii",), "hints": {"cb_nodes": ("3",)}}, {}, "cb_nodes must be a whole number from 1 to 1"),
        ({"records": ("ascii",), "hints": {"cb_buffer_size": ("9",)}}, {}, "expected cb_nodes, found cb_buffer_size"),
        ({"records": ("ascii",)}, {"stripes": 97}, "stripes must be a whole number from 1 to 96, found 97"),
        ({"records": ("ascii",)}, {"nodes": 2}, "nodes must be from 1 to the smallest number of ranks, 1, found 2"),
        ({"records": ("ascii",), "ranks_per_node": 1}, {"nodes": 1}, "both say how ranks are placed"),
    ):
        with pytest.raises(ArgumentError, match=told):
            WriteLaboratory(lustre, **laboratory).run(WriteDesign(**design), tmp_path / "out", print)
    assert not (tmp_path / "out").exists()
    done = call_kinema("bench-write", "--nodes", 4, "-o", tmp_path / "out")
    assert done.returncode == 2 and "it needs --lab" in done.stderr
