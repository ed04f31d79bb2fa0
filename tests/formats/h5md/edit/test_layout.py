"""`layout_of` and `kinema info`: what a layout costs is counted right, and said with the command that helps."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.files.layout import IN_BLOCKS, ONE_ATOM, ONE_BY_ONE, SUBSET, FileLayout
from kinema.testing.h5md_files import CASES

from .files import make_h5md, make_rich, walk


def counted(shape: tuple[int, ...], chunks: tuple[int, ...], atoms: list[int], kept: bool) -> float:
    """Bytes touched / wanted, by looking at every chunk for every frame."""
    grid = [range(-(-n // c)) for n, c in zip(shape, chunks, strict=True)]
    touched: list[tuple[int, ...]] = []
    for frame in range(shape[0]):
        of_frame = {
            place
            for place in itertools.product(*grid)
            if place[0] == frame // chunks[0] and any(atom // chunks[1] == place[1] for atom in atoms)
        }
        touched += [place for place in of_frame if not kept or place not in touched]
    return len(touched) * int(np.prod(chunks)) / (shape[0] * len(atoms) * 3)


@pytest.mark.parametrize("chunks", [(1, 11, 3), (4, 11, 3), (3, 4, 1), (13, 1, 3), (5, 2, 2), (2, 5, 3)])
def test_amplification_is_that_of_counting(tmp_path: Path, chunks: tuple[int, int, int]) -> None:
    shape = (13, 11, 3)
    make_h5md(tmp_path / "in.h5md", values=walk(13, 11), chunks=chunks)
    atoms = [2, 3, 9]
    (field, _) = kn.layout_of(tmp_path / "in.h5md", atoms=atoms).groups[0].fields
    assert field.chunks == chunks
    everyone = list(range(11))
    assert field.amplification[IN_BLOCKS] == pytest.approx(counted(shape, chunks, everyone, kept=True))
    assert field.amplification[ONE_BY_ONE] == pytest.approx(counted(shape, chunks, everyone, kept=True))  # in the cache
    assert field.amplification[SUBSET] == pytest.approx(counted(shape, chunks, atoms, kept=True))
    assert field.amplification[ONE_ATOM] == pytest.approx(counted(shape, chunks, [5], kept=True))


def test_frame_by_frame_beyond_the_cache(tmp_path: Path) -> None:
    # a row of chunks has 40 x 5000 x 12 = 2.4 MB: each frame reads all of them again
    make_h5md(tmp_path / "in.h5md", values=walk(40, 5000), chunks=(20, 500, 1))
    layout = kn.layout_of(tmp_path / "in.h5md")
    (field, _) = layout.groups[0].fields
    assert field.amplification[ONE_BY_ONE] == pytest.approx(20)
    assert field.amplification[IN_BLOCKS] == pytest.approx(1)
    assert any("--layout frames" in advice and "20 times" in advice for advice in layout.advice)
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md")
    (better, _) = kn.layout_of(tmp_path / "out.h5md").groups[0].fields
    assert better.amplification[ONE_BY_ONE] == pytest.approx(better.amplification[IN_BLOCKS])


def test_pages_of_data_without_chunks(tmp_path: Path) -> None:
    n_frames, n_atoms = 30, 3000
    values = make_h5md(tmp_path / "in.h5md", values=walk(n_frames, n_atoms))
    atoms = [*range(100, 400), 2500]
    (field, _) = kn.layout_of(tmp_path / "in.h5md", atoms=atoms).groups[0].fields
    with h5py.File(tmp_path / "in.h5md") as file:
        start = file["particles/all/position/value"].id.get_offset()
    pages = {
        (start + (frame * n_atoms + atom) * 12 + byte) // 4096
        for frame in range(n_frames)
        for atom in atoms
        for byte in (0, 11)
    }
    assert field.chunks is None
    assert field.amplification[SUBSET] == pytest.approx(len(pages) * 4096 / (n_frames * len(atoms) * 12))
    assert field.raw_bytes == field.stored_bytes == values.nbytes


def test_chunks_that_were_never_written_cost_nothing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5md", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        value = file.create_dataset("particles/all/position/value", (8, 10, 3), "<f4", chunks=(1, 10, 3))
        value.attrs["unit"] = "nm"
        value[1] = 1
        value[5] = 1
    (field,) = kn.layout_of(tmp_path / "in.h5md").groups[0].fields
    assert field.n_chunks == 2
    assert field.stored_bytes == 240


def test_facts_of_a_file(tmp_path: Path) -> None:
    make_rich(tmp_path / "in.h5md")
    layout = kn.layout_of(tmp_path / "in.h5md")
    assert layout.creator == "a test"
    assert layout.author == "A. Uthor"
    assert layout.observables == ("energy",)
    (group,) = layout.groups
    assert (group.name, group.n_atoms, group.n_frames, group.problem) == ("particles/all", 20, 12, "")
    positions = group.fields[0]
    assert (positions.name, positions.unit, positions.dtype, positions.filters) == (
        "positions", "Angstrom", "<f4", ("deflate",),
    )  # fmt: skip
    with h5py.File(tmp_path / "in.h5md") as file:
        assert positions.stored_bytes == file["particles/all/position/value"].id.get_storage_size()
        infos = [
            file["particles/all/position/value"].id.get_chunk_info(i).byte_offset for i in range(positions.n_chunks)
        ]
    assert all(offset % positions.alignment == 0 for offset in infos)
    assert any(offset % (2 * positions.alignment) for offset in infos)


def test_alignment_of_an_aligned_file(tmp_path: Path) -> None:
    make_h5md(tmp_path / "in.h5md", values=walk(40, 500))
    kn.repack(tmp_path / "in.h5md", tmp_path / "out.h5md", align=8192, chunk_bytes=20_000)
    assert kn.layout_of(tmp_path / "out.h5md").groups[0].fields[0].alignment >= 8192


def test_what_h5py_must_read_is_said(tmp_path: Path) -> None:
    for name in ("numbers_of_their_own", "image_unwrap"):
        case = next((case for case in CASES if case.name == name), None)
        if case is None:
            continue
        case.write(tmp_path / f"{name}.h5md")
    layout = kn.layout_of(tmp_path / "numbers_of_their_own.h5md")
    (field, *_) = layout.groups[0].fields
    assert field.through_library
    assert field.amplification == {}
    assert any("read through h5py" in advice for advice in layout.advice)


def test_every_conformance_file_has_a_layout(conformance: Any, tmp_path: Path) -> None:
    described = 0
    for case in CASES:
        path, expected = conformance(case, tmp_path)
        options = expected.options
        try:
            found: FileLayout = kn.layout_of(path, root=options.get("root"), units=options.get("units"))
        except kn.UnsupportedFormatError:
            continue
        json.dumps(found.as_dict())
        described += 1
        assert found.groups
        assert all(group.fields or group.problem for group in found.groups)
    assert described > 80


# -- the command ----------------------------------------------------------------------------------------------------


def run(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    from kinema.cli import main

    try:
        code = main([str(word) for word in words])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    said = capsys.readouterr()
    return code or 0, said.out, said.err


def test_info_shows_groups_costs_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_h5md(tmp_path / "in.h5md", values=walk(200, 2000), chunks=(100, 200, 1), groups=("water", "ions"))
    code, out, _ = run("info", tmp_path / "in.h5md", capsys=capsys)
    assert code == 0
    for words in ("particles/water", "particles/ions", "100x200x1", "bytes touched / wanted", "kinema repack"):
        assert words in out
    code, out, _ = run("info", tmp_path / "in.h5md", "--particles", "water", "--json", capsys=capsys)
    facts: dict[str, Any] = json.loads(out)
    assert facts["n_frames"] == 200
    assert [group["name"] for group in facts["layouts"][0]["groups"]] == ["particles/water"]
    code, _, err = run("info", tmp_path / "in.h5md", "--select", "all", capsys=capsys)
    assert code == 2
    assert "--particles" in err


def test_info_counts_for_a_selection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(case for case in CASES if case.name == "gromacs").write(tmp_path / "in.h5md")
    code, out, _ = run("info", tmp_path / "in.h5md", "--select", "resname SOL", capsys=capsys)
    assert code == 0
    assert "6 selected of the atoms" in out


def test_repack_split_and_join(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = make_h5md(tmp_path / "in.h5md")
    code, out, _ = run(
        "repack",
        tmp_path / "in.h5md",
        tmp_path / "out.h5md",
        "--layout",
        "4x20x3",
        "--compress",
        "zstd:5",
        capsys=capsys,
    )
    assert code == 0
    assert "read back and compared" in out
    with h5py.File(tmp_path / "out.h5md") as file:
        assert file["particles/all/position/value"].chunks == (4, 20, 3)
    code, out, _ = run("split", tmp_path / "out.h5md", "--parts", 3, "--json", capsys=capsys)
    paths = json.loads(out)["paths"]
    assert [Path(path).parent.name for path in paths] == ["out.parts"] * 3
    code, out, _ = run("join", *paths, "-o", tmp_path / "whole.h5md", capsys=capsys)
    assert "needs its 3 parts" in out
    assert kn.open(tmp_path / "whole.h5md", stored=False).read().tobytes() == values.tobytes()
    for words, message in (
        (("repack", tmp_path / "in.h5md", tmp_path / "out.h5md"), "exists already"),
        (("repack", tmp_path / "in.h5md", tmp_path / "o.h5md", "--compress", "zstd:fast"), "as in zstd:3"),
        (("repack", tmp_path / "in.h5md", tmp_path / "o.h5md", "--layout", "diagonal"), "layout is one of"),
        (("split", tmp_path / "in.h5md"), "give either"),
        (("join", paths[0], tmp_path / "none.h5md", "-o", tmp_path / "o.h5md"), "no such file"),
    ):
        code, _, err = run(*words, capsys=capsys)
        assert code == 2, words
        assert message in err
    code, _, _ = run("repack", tmp_path / "in.h5md", tmp_path / "out.h5md", "--force", "--no-verify", capsys=capsys)
    assert code == 0
