"""`kn.convert(checkpoint=)`: calls that were ended continue to the same bytes; other calls are refused, and why."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.counted import CountedBytes
from kinema.execution.checkpoint.file import load
from kinema.testing.amounts import each


class Stopped(Exception):
    pass


def test_a_call_goes_on_to_the_same_bytes(conversion: Any) -> None:
    n_saved = conversion.interrupt()
    assert 0 < n_saved < conversion.n_frames
    assert conversion.left == {"a.ckpt", conversion.part.name}
    again = conversion.interrupt()
    # a busy machine may have made none since
    assert n_saved <= again < conversion.n_frames
    done = conversion.run(workers=3, memory="40 MiB")
    assert done.n_restored == again and done.n_frames == conversion.n_frames
    assert f"{again:,} frames were there already" in str(done)
    assert conversion.left == {conversion.out.name}
    assert conversion.content == conversion.whole()


def test_another_call_is_refused_with_what_differs(conversion: Any) -> None:
    conversion.interrupt()
    kept = conversion.part.read_bytes()
    for options, words in (
        ({"stop": 1500}, "the frames, expected 2400 from 0, every 1, found 1500 from 0, every 1"),
        ({"select": range(18_000, 19_000)}, "the atoms, expected 1000 of 20000, digest"),
        ({"fields": "positions"}, r"the fields, expected None, found \('positions',\)"),
        ({"dt": 3.0}, "what was stated of the files"),
    ):
        with pytest.raises(kn.ArgumentError, match=f"the checkpoint is of another run: {words}"):
            conversion.run(**options)
        assert conversion.part.read_bytes() == kept
    if conversion.out.suffix == ".xtc":
        with pytest.raises(kn.ArgumentError, match="the precision, expected None, found 500"):
            conversion.run(precision=500)
    if conversion.out.suffix == ".h5md":
        with pytest.raises(kn.ArgumentError, match=r"is new|the compression"):
            conversion.run(compression="zstd")
    with pytest.raises(kn.ArgumentError, match=r"the output, expected a.*, found b"):
        conversion.convert(
            conversion.parts, conversion.out.with_stem("b"), checkpoint=conversion.saved, **conversion.options
        )
    # rewritten, of the same size and time
    status = conversion.source.stat()
    with conversion.source.open("r+b") as file:
        file.seek(-100_000, os.SEEK_END)
        file.write(b"12345678")
    os.utime(conversion.source, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(kn.ArgumentError, match=r"file 1 of 120, expected .* changed in place"):
        conversion.run()
    assert conversion.part.read_bytes() == kept
    assert conversion.left == {"a.ckpt", conversion.part.name}


def test_a_part_that_is_not_what_was_written_is_refused(conversion: Any) -> None:
    conversion.interrupt()
    part, kept = conversion.part, conversion.part.read_bytes()
    part.write_bytes(kept[:1000])
    with pytest.raises(kn.TruncatedFileError, match="the file is shorter than what was written of it"):
        conversion.run()
    moved = part.rename(conversion.path / "moved")
    with pytest.raises(kn.ArgumentError, match=r"not found beside a.*relies on the frames in it; bring it back"):
        conversion.run()
    moved.rename(part)
    # bytes after the counted frames do not matter
    part.write_bytes(kept + b"what a killed call has written and not counted")
    done = conversion.run()
    assert done.compared == 16 and conversion.left == {conversion.out.name}


def test_a_part_that_was_changed_in_what_counts_is_refused(conversion: Any) -> None:
    conversion.interrupt()
    conversion.interrupt()
    part, kept, saved = conversion.part, conversion.part.read_bytes(), conversion.saved.read_bytes()
    content = load(str(conversion.saved))
    assert content is not None
    (digests,) = content.counted.values()
    # frames were written; all their bytes count in files like these, but in H5MD only the bytes of full chunks
    assert sum(stop - start for start, stop, _ in digests) > len(kept) / 3
    rng = random.Random(1)
    for _ in range(3):
        start, stop, _digest = rng.choice(digests)
        at = rng.randrange(start, stop - 4)
        changed = bytearray(kept)
        changed[at : at + 4] = bytes(byte ^ 0x10 for byte in changed[at : at + 4])
        part.write_bytes(changed)
        with pytest.raises(kn.CorruptFileError, match=rf"{part.name}: byte {start}: .* were changed since they were"):
            conversion.run()
        assert conversion.left == {"a.ckpt", part.name}, "nothing is lost"
        assert part.read_bytes() == bytes(changed) and conversion.saved.read_bytes() == saved
    part.write_bytes(kept)
    assert conversion.run().n_restored > 0
    assert conversion.content == conversion.whole()


def test_a_part_under_another_name_is_not_touched(conversion: Any) -> None:
    conversion.interrupt()
    precious = conversion.out.parent / "precious"
    precious.write_bytes(b"x" * 10_000_000)
    data = conversion.saved.read_bytes()
    content = load(str(conversion.saved))
    assert content is not None and content.rows == conversion.part.name
    from kinema.execution.checkpoint.file import CheckpointWriter

    with conversion.saved.open("wb") as file:
        writer = CheckpointWriter(file)
        writer.run(content.items)
        writer.rows("precious")
        writer.begin_pass(content.passes[0].items)
        writer.node(*content.passes[0].nodes[0])
        writer.end()
    with pytest.raises(kn.ArgumentError, match="precious: not found beside"):
        conversion.run()
    assert precious.read_bytes() == b"x" * 10_000_000
    conversion.saved.write_bytes(data)
    precious.unlink()
    assert conversion.run().n_restored > 0


def test_an_error_before_the_first_frame_leaves_nothing(conversion: Any) -> None:
    with pytest.raises(kn.MemoryLimitError):
        conversion.run(memory="1 MiB")
    with pytest.raises(kn.ArgumentError, match=r"lacks what is to be written|holds one field|has no velocities"):
        conversion.run(fields="velocities")
    assert conversion.left == set()
    # the content of a file that is continued stays
    conversion.interrupt()
    with pytest.raises(kn.MemoryLimitError):
        conversion.run(memory="1 MiB")
    assert conversion.left == {"a.ckpt", conversion.part.name}


def test_a_call_that_was_ended_behind_its_last_write(conversion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinema.files.conversion.resumable as module

    def ended(*_: Any) -> None:
        raise Stopped

    conversion.n_parts = 3
    publish = module.publish
    monkeypatch.setattr(module, "publish", ended)
    with pytest.raises(Stopped):
        conversion.run()
    assert conversion.left == {"a.ckpt", conversion.part.name}
    # after the renaming
    monkeypatch.setattr(module, "publish", publish)
    monkeypatch.setattr(module.CheckpointManager, "finish", ended)
    with pytest.raises(Stopped):
        conversion.run()
    assert conversion.left == {"a.ckpt", conversion.out.name}
    monkeypatch.undo()
    expected = conversion.content
    done = conversion.run()
    assert (done.n_restored, done.compared, conversion.left) == (60, 16, {conversion.out.name})
    assert conversion.content == expected
    # without its checkpoint it is a file like any other
    with pytest.raises(kn.ArgumentError, match="exists already"):
        conversion.run()


@pytest.mark.parametrize(("conversion", "number"), each(["dcd", "xtc", "h5md"], [1, 2, 3]), indirect=["conversion"])
def test_an_interrupt_behind_the_renaming_of_a_checkpoint(
    conversion: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    import kinema.storage.output_file as module

    renamed = []
    replace = os.replace

    def interrupted(source: str, target: str) -> None:
        replace(source, target)
        if target == str(conversion.saved):
            renamed.append(target)
            if len(renamed) == number:
                raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        conversion.run()
    monkeypatch.undo()
    said = "".join(getattr(stopped.value, "__notes__", []))
    assert "changed by somebody else" not in said
    if number == 1:
        # no frame was written
        assert conversion.left == set()
    else:
        assert "the same call continues from there" in said
        assert conversion.left == {"a.ckpt", conversion.part.name}
        assert conversion.run().n_restored > 0
        assert conversion.content == conversion.whole()


def test_a_checkpoint_that_is_kept_says_that_all_is_done(conversion: Any) -> None:
    conversion.n_parts = 3
    saved = Checkpoint(conversion.saved, keep=True)
    first = conversion.convert(conversion.parts, conversion.out, checkpoint=saved, **conversion.options)
    again = conversion.convert(conversion.parts, conversion.out, checkpoint=saved, **conversion.options)
    assert (first.n_restored, again.n_restored, again.size) == (0, 60, first.size)
    assert conversion.left == {"a.ckpt", conversion.out.name}
    conversion.out.write_bytes(b"of somebody else")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        conversion.convert(conversion.parts, conversion.out, checkpoint=saved, **conversion.options)


def test_a_file_that_reads_back_otherwise_is_not_gone_on_with(conversion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinema.files.conversion.compare as module

    conversion.n_parts = 3
    monkeypatch.setattr(module, "_same_values", lambda copy, field, expected, found: np.zeros(len(found), np.bool_))
    with pytest.raises(kn.CorruptFileError, match="read back are not those of the source"):
        conversion.run()
    assert conversion.left == set()


def test_what_cannot_be_a_checkpoint(conversion: Any) -> None:
    conversion.n_parts = 1
    for options, words in (
        ({"checkpoint": conversion.out}, "the output and checkpoint are two files"),
        ({"checkpoint": conversion.source}, "is the file that is read"),
        ({"checkpoint": None, "checkpoint_interval": 3.0}, "name the file with checkpoint="),
        ({"checkpoint": conversion.path / "no" / "a.ckpt"}, "folder does not exist"),
    ):
        with pytest.raises(kn.Error, match=words):
            conversion.convert(conversion.parts, conversion.out, **(conversion.options | options))
    assert conversion.left == set()


@pytest.mark.parametrize("conversion", ["h5md"], indirect=True)
@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip", "max_error": 0.01},
        {"layout": "atoms", "compression": "zstd", "checksum": True},
        {"compression": "lzf", "chunk_bytes": 100_000},
    ],
)
def test_chunks_that_are_encoded_are_gone_on_with(conversion: Any, options: dict[str, Any]) -> None:
    # to compress them takes longer than to decode them
    conversion.options |= options
    conversion.n_parts = 80
    first = conversion.interrupt()
    assert first <= conversion.interrupt() <= conversion.run(workers=2).n_restored < conversion.n_frames
    assert conversion.content == conversion.whole()
    assert conversion.left == {conversion.out.name}


@pytest.mark.parametrize("conversion", ["h5md"], indirect=True)
def test_frames_behind_those_that_count_are_not_written_again(conversion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    conversion.interrupt()
    conversion.interrupt()
    # a process that is killed between its commit and the checkpoint
    earlier = conversion.saved.read_bytes()
    later = conversion.interrupt()
    conversion.saved.write_bytes(earlier)
    assert conversion.run().n_restored == later
    assert conversion.content == conversion.whole()


@pytest.mark.parametrize("conversion", ["h5md"], indirect=True)
def test_a_part_that_lacks_frames_is_refused(conversion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = conversion.interrupt()
    size = conversion.part.stat().st_size
    later, kept = conversion.interrupt(), conversion.part.read_bytes()
    assert later > saved and len(kept) > size
    import h5py

    with h5py.File(conversion.part, "r+", libver=("v108", "v108")) as file:
        file["particles/trajectory/position/value"].resize(saved, axis=0)
    # chunks after the end are cleared
    with pytest.raises(kn.CorruptFileError, match="were changed since they were written"):
        conversion.run()
    with monkeypatch.context() as unseen:
        unseen.setattr(CountedBytes, "check", lambda *_: None)
        with pytest.raises(kn.TruncatedFileError, match=rf"shorter than .*: expected {later} frames, found {saved}"):
            conversion.run()
    conversion.part.write_bytes(kept)
    assert conversion.run().n_restored == later


@pytest.mark.parametrize("conversion", ["h5md"], indirect=True)
def test_what_has_no_checkpoint_says_so(conversion: Any) -> None:
    for options, out, words in (
        ({"layout": "contiguous"}, conversion.out, "layout='contiguous' cannot be written with checkpoint="),
        ({"split": 10}, conversion.out, "one file that is not text, found several files"),
        ({}, conversion.out.with_suffix(".pdb"), "one file that is not text, found PDB files"),
    ):
        with pytest.raises(kn.ArgumentError, match=words):
            conversion.convert(conversion.parts, out, checkpoint=conversion.saved, **conversion.options, **options)
    whole = conversion.path / "in.h5md"
    conversion.convert(conversion.source, whole)
    with pytest.raises(kn.ArgumentError, match=r"in.h5md is repacked, which has no checkpoint"):
        conversion.convert(whole, conversion.out, checkpoint=conversion.saved)
    assert conversion.left == set()


@pytest.mark.parametrize("conversion", ["xtc"], indirect=True)
def test_the_index_of_a_resumed_file_is_that_of_a_scan(conversion: Any) -> None:
    conversion.interrupt()
    conversion.run()
    with collected():
        made, source = kn.open(conversion.out), kn.open(conversion.parts, overlap="all")
        assert np.array_equal(made.steps, source.steps)
    # the call that continued stored the index, which equals the index of a scan
    assert made.parts[0].index == "stored"
    assert made.parts[0].index_path is not None
    stored = Path(made.parts[0].index_path).read_bytes()
    with collected():
        kn.open(conversion.out, index="rebuild").scan()
    assert Path(made.parts[0].index_path).read_bytes() == stored
