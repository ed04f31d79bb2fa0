"""Output files: whole or not at all, with the mode of any other file, and errors that name the output."""

import gc
import os
import re
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.storage import output_file
from kinema.storage.output_file import (
    OutputFile,
    folder_of_results,
    machine,
    remove_leftovers,
    reservations,
    reserve,
    temporary_folder,
    whole_folder,
    write_index,
    write_whole,
)
from kinema.testing.programs.children import start_child


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_appears_when_it_is_committed(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "out.csv")
    Path(output.temporary).write_text("whole")
    assert names(tmp_path) == [os.path.basename(output.temporary)]
    assert os.path.dirname(output.temporary) == str(tmp_path)
    output.commit()
    assert names(tmp_path) == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "whole"
    output.discard()  # nothing happens after a commit
    assert names(tmp_path) == ["out.csv"]


def test_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole("out.csv", lambda file: file.write(b"whole"))
    assert names(tmp_path) == ["out.csv"]
    assert Path("out.csv").read_bytes() == b"whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, kn.ArgumentError])
def test_nothing_stays_of_a_file_that_is_not_whole(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.csv"
    path.write_text("before")

    def fail(file) -> None:
        file.write(b"half")
        raise error("no more")

    with pytest.raises(error, match="no more"):
        write_whole(path, fail)
    assert names(tmp_path) == ["out.csv"]
    assert path.read_text() == "before"


def test_a_file_that_is_forgotten_is_removed(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "out.csv")
    assert len(names(tmp_path)) == 1
    del output
    gc.collect()
    assert names(tmp_path) == []


def test_a_protected_file_is_never_removed_by_a_later_run(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from kinema.storage.output_file import OutputFile\n"
        "output = OutputFile('out.csv')\n"
        "output.protect()\n"
        "assert os.listdir() == [output.temporary] == [output.protected_name]\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, timeout=120)
    (left,) = names(tmp_path)
    with pytest.warns(kn.Note, match="holds what a run has left"), OutputFile(tmp_path / "out.csv") as output:
        assert output.temporary != str(tmp_path / left)
    assert names(tmp_path) == ["out.csv", left]
    # one of this process: the same number is not taken twice
    with OutputFile(tmp_path / "two.csv") as first:
        first.protect()
        assert names(tmp_path)[-1] == Path(first.temporary).name
        with OutputFile(tmp_path / "two.csv") as second:
            assert second.protected_name != first.temporary
    assert names(tmp_path) == ["out.csv", left, "two.csv"]


@pytest.mark.parametrize("killed", [False, True])
def test_what_the_end_of_the_process_leaves(tmp_path: Path, killed: bool) -> None:
    code = (
        "import os, signal\n"
        "from kinema.storage.output_file import OutputFile\n"
        "output = OutputFile('out.csv')\n"
        "assert os.listdir() == [output.temporary]\n"
        + ("os.kill(os.getpid(), signal.SIGKILL)\n" if killed else "raise SystemExit(0)\n")
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == (-signal.SIGKILL if killed else 0)
    left = names(tmp_path)
    assert len(left) == killed
    assert all(re.fullmatch(r"out\.part-[\w.-]+-[0-9a-f]{8}-\d+\.csv", name) for name in left)
    others = [
        "other.part-h-00000000-1.csv",
        "out.part-mine.csv",
        "out.part-other-01234567-12.csv",
        "out.part-x-1-1.dat",
    ]
    for name in others:
        (tmp_path / name).write_text("of somebody else")
    with pytest.warns(kn.Note) as noted:
        remove_leftovers(tmp_path / "out.csv")
    assert names(tmp_path) == others
    assert ["was left by process 12 on other" in str(one.message) for one in noted] == [True]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o007])
def test_mode_bits_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "out.csv", lambda file: file.write(b""))
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o666 & ~mask


def test_an_existing_file_gets_the_mode_of_a_new_one(tmp_path: Path) -> None:
    path, other = tmp_path / "out.csv", tmp_path / "other"
    path.write_text("before")
    path.chmod(0o600)
    other.write_text("")
    write_whole(path, lambda file: file.write(b"after"))
    assert path.stat().st_mode == other.stat().st_mode


def test_errors_name_the_output(tmp_path: Path) -> None:
    with pytest.raises(kn.FileNotFound, match=r"none/out\.csv: cannot write: no such file or directory") as missing:
        OutputFile(tmp_path / "none" / "out.csv")
    assert missing.value.path == str(tmp_path / "none" / "out.csv")

    def full(file) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(kn.FileIOError, match=r"out\.csv: cannot write: no space left on device"):
        write_whole(tmp_path / "out.csv", full)

    def other(file) -> None:
        raise kn.FileIOError("in.xtc: opening: input/output error", path="in.xtc")

    with pytest.raises(kn.FileIOError, match=r"^in\.xtc: opening") as passed:
        write_whole(tmp_path / "out.csv", other)
    assert passed.value.path == "in.xtc"
    assert names(tmp_path) == []


def test_a_commit_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    output = OutputFile(tmp_path / "out.csv")
    with pytest.raises(kn.FileIOError, match=r"out\.csv: cannot write"):
        output.commit()
    assert names(tmp_path) == ["out.csv"]


def test_temporary_names_are_created_exclusively(tmp_path: Path) -> None:
    path = str(tmp_path / "out.csv")
    one, other = OutputFile(path), OutputFile(path)
    assert one.temporary != other.temporary
    assert all(Path(file.temporary).suffix == ".csv" for file in (one, other))
    Path(one.temporary).write_text("one")
    Path(other.temporary).write_text("other")
    with pytest.raises(kn.ArgumentError, match=r"out\.csv: is being written by this process, as out\.part-.*csv shows"):
        OutputFile(path, alone=True)
    one.commit()
    other.commit()
    assert names(tmp_path) == ["out.csv"]
    assert Path(path).read_text() == "other"


def test_a_name_as_long_as_file_systems_take(tmp_path: Path) -> None:
    path = tmp_path / ("\N{GREEK SMALL LETTER ALPHA}" * 125 + ".csv")
    write_whole(path, lambda file: file.write(b"whole"))
    assert names(tmp_path) == [path.name]


def test_reserved_files_are_those_that_are_written(tmp_path: Path) -> None:
    with reservations():
        reserve(tmp_path / "a.csv")
        reserve(tmp_path / "b.csv")
        assert len(names(tmp_path)) == 2
        with pytest.raises(kn.ArgumentError, match="is being written by this process"):
            reserve(tmp_path / "a.csv")
        write_whole(tmp_path / "a.csv", lambda file: file.write(b"whole"))
    assert names(tmp_path) == ["a.csv"]


def test_a_temporary_folder_is_removed(tmp_path: Path) -> None:
    def fail() -> None:
        with temporary_folder(tmp_path / "parts") as folder:
            Path(folder, "inside").write_text("")
            assert names(tmp_path) == [os.path.basename(folder)]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []


def test_a_run_that_continues_keeps_its_file_and_removes_those_of_others(tmp_path: Path) -> None:
    host, boot = machine()
    # of no process: their numbers end at 4,194,304
    earlier, own, later = (tmp_path / f"out.part-{host}-{boot}-{pid}.csv" for pid in (5_000_000, 5_000_001, 5_000_002))
    for path in (earlier, own, later):
        path.touch()
    remove_leftovers(tmp_path / "out.csv", but=str(own))
    assert names(tmp_path) == [own.name]


def test_a_folder_that_is_there_is_replaced(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with whole_folder(tmp_path / "out") as folder:
            (Path(folder) / text).touch()
        assert names(tmp_path) == ["out"]
        assert names(tmp_path / "out") == [text]

    def fail() -> None:
        with whole_folder(tmp_path / "out") as folder:
            (Path(folder) / "third").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["second"]


def test_indices_have_the_temporary_names_of_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_trajectory(tmp_path)
    renamed: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (renamed.append(os.path.basename(old)), replace(old, new)))
    kn.open(path).scan()
    assert re.fullmatch(r"\.md\.xtc\.part-[\w.-]+-[0-9a-f]{8}-\d+\.kinema-index", renamed[0])
    assert names(tmp_path) == [".md.xtc.kinema-index", "md.xtc"]
    kn.open(path, stored=False).refresh()
    assert len(renamed) == 1
    # a FIFO in its place is replaced, not written into
    (tmp_path / ".md.xtc.kinema-index").unlink()
    os.mkfifo(tmp_path / ".md.xtc.kinema-index")
    kn.open(path).scan()
    assert (tmp_path / ".md.xtc.kinema-index").is_file()


def test_what_a_killed_process_leaves_of_an_index_is_removed(tmp_path: Path) -> None:
    path = a_trajectory(tmp_path)
    code = (
        "import os, signal, sys\n"
        "import kinema as kn\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "kn.open(sys.argv[1]).scan()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code, path], env=environment, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2 and ".md.xtc.part-" in names(tmp_path)[0]
    other = tmp_path / ".md.xtc.part-other-01234567-12.kinema-index"
    other.write_text("of another host")
    traj = kn.open(path)
    traj.scan()
    assert names(tmp_path) == [".md.xtc.kinema-index", other.name, "md.xtc"]
    # noted with the index, as it is written in threads
    (part,) = traj.parts
    assert part.index == "built" and "was left by process 12 on other" in (part.index_note or "")


def test_an_index_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    with pytest.raises(kn.FileNotFound, match="cannot write"):
        write_index(str(tmp_path / "no" / "index"), b"")


def a_trajectory(folder: Path) -> str:
    path = folder / "md.xtc"
    frame = struct.pack(">iiif9fi", 1995, 2, 1, 1.0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 2) + struct.pack(">6f", *range(6))
    path.write_bytes(frame)
    return str(path)


@pytest.mark.parametrize("ending", [".xtc", ".h5md", ".gro", ".txt"])
def test_a_link_in_place_of_a_temporary_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """In a folder where others may remove files, somebody puts a link to a file of the user's in place of a new one."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    create = output_file._create_file

    def swapped(name: str) -> None:
        create(name)
        os.unlink(name)
        os.symlink(victim, name)

    monkeypatch.setattr(output_file, "_create_file", swapped)
    with pytest.raises(kn.Error, match="link"):  # noqa: PT012
        if ending == ".txt":
            write_whole(tmp_path / "out.txt", lambda file: file.write(b"x"))
        else:
            with kn.Writer(tmp_path / f"out{ending}", n_atoms=3) as writer:
                writer.write(np.zeros((3, 3), np.float32))
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / f"out{ending}").exists()


def test_a_folder_that_others_gave_a_temporary_name_is_not_removed(tmp_path: Path) -> None:
    host, boot = output_file.machine()
    gone = start_child([sys.executable, "-c", ""])
    gone.wait(60)
    planted = tmp_path / f"out.part-{host}-{boot}-{gone.pid}.xtc"
    planted.mkdir()
    (planted / "results").write_bytes(b"precious")
    # others may rename what is in the folder: it may be one of the user's
    tmp_path.chmod(0o777)
    with pytest.warns(kn.Note, match="was left by process"):
        remove_leftovers(tmp_path / "out.xtc")
    assert (planted / "results").exists()
    # they may not: it can only be what a run has left
    tmp_path.chmod(0o1777)
    remove_leftovers(tmp_path / "out.xtc")
    assert not planted.exists()


@pytest.mark.parametrize(("before", "results", "after"), [(False, 0, False), (False, 1, True), (True, 0, True)])
def test_a_folder_of_results_that_was_made_for_nothing_is_removed(tmp_path, before, results, after):
    folder = tmp_path / "results"
    if before:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        stopped_in(folder, results)
    assert folder.exists() == after


def stopped_in(folder: Path, results: int) -> None:
    """Ctrl-C after a number of results."""
    with folder_of_results(folder) as place:
        assert place.is_dir()
        for number in range(results):
            (place / str(number)).touch()
        raise KeyboardInterrupt
