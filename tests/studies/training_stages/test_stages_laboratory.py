"""`ml bench --step --lab`: loops and threads in virtual time, held to closed forms; the same bits again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinema.cli.in_process import call_kinema
from kinema.report.traces import summarise
from kinema.studies.lab.machine import EmulatedMachine
from kinema.studies.lab.operations import (
    Acquire,
    Announce,
    Await,
    Compute,
    Metadata,
    Operation,
    Pause,
    ReadBytes,
    Release,
    StoredFile,
)
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.recording import RecordedBatches
from kinema.studies.training_stages import StagesDesign, study
from kinema.studies.training_stages.design import STAGES, Stage
from kinema.studies.training_stages.emulation import EmulatedStage

N_STEPS, BATCH, SIZE = 40, 4, 1 << 20
# times without fractions: a read of 1 MiB takes 2 ms, whatever else is under way
PLAIN = replace(
    read_platform("lustre"), read_rate=SIZE * 500, request_latency=0, metadata_rate=10**9, link_rate=10**15,
    link_latency=0, stripe_bytes=SIZE, request_bytes=SIZE, local_rate=SIZE * 2000, local_latency=0,
)  # fmt: skip
READ, CACHED = 2_000_000, 500_000


def seconds(
    stage: Stage, folder: Path, *, ranks: int = 1, nodes: int = 1, blocks: bool = False, **design: float
) -> float:
    """The time of a stage with synthetic batches: each sample is one read of 1 MiB on a target of its own."""
    made = StagesDesign(("none",), batch=BATCH, ranks=ranks, **design)  # type: ignore[arg-type]
    cpu = 1_000_000
    whole = StoredFile("one", N_STEPS * BATCH * SIZE, 96)

    def calls(epoch: int, step: int) -> tuple[Operation, ...]:
        found: list[Operation] = []
        for number in range(step * BATCH, (step + 1) * BATCH):
            if stage.files == "one":
                found.append(ReadBytes(whole, number * SIZE, SIZE, keep="node" if blocks else ""))
                continue
            file = StoredFile(f"{number}", SIZE, 1, number)
            found += [Metadata("open", file), Metadata("stat", file), ReadBytes(file, 0, SIZE), Metadata("close", file)]
        return tuple(found)

    batches = {(epoch, step): calls(epoch, step) for epoch in range(made.epochs) for step in range(N_STEPS)}
    fetched = {"one": tuple((number * SIZE, SIZE) for number in range(N_STEPS * BATCH))} if blocks else {}
    recorded = RecordedBatches((batches,) * ranks, fetched)
    EmulatedStage(stage, made, recorded, cpu, 16).run(PLAIN, nodes).write(str(folder / "trace"))
    return summarise(folder / "trace").job.total * 1e-9


# of a sample: reading and computing
SAMPLE = READ * 1e-9 + 1e-3


@pytest.mark.parametrize(
    ("stage", "workers", "step", "expected"),
    [
        # one thread that does all, and no training
        (STAGES[0], 1, 0.0, N_STEPS * BATCH * SAMPLE),
        (STAGES[2], 1, 0.0, N_STEPS * BATCH * SAMPLE),
        # reads of threads overlap, computing takes turns: the interpreter is busy all the time, after the first read
        (STAGES[0], 8, 0.0, N_STEPS * BATCH * 1e-3 + READ * 1e-9),
        # h5py's lock: a second thread saves nothing
        (STAGES[2], 8, 0.0, N_STEPS * BATCH * SAMPLE),
        # training takes longer than reading: each step, after the first batch
        (STAGES[0], 1, 0.1, BATCH * SAMPLE + N_STEPS * 0.1),
        (STAGES[2], 8, 0.1, None),
        # the parts of a batch on four threads
        (STAGES[4], 4, 0.0, N_STEPS * SAMPLE),
        (STAGES[4], 1, 0.1, BATCH * SAMPLE + N_STEPS * 0.1),
    ],
)
def test_loops_and_threads_wait_for_each_other(
    stage: Stage, workers: int, step: float, expected: float | None, tmp_path: Path
) -> None:
    found = seconds(stage, tmp_path, workers=workers, step=step, epochs=1)
    if expected is None:
        # eight threads take turns with the library: the first batch comes late, then training is the limit
        assert N_STEPS * 0.1 + BATCH * SAMPLE <= found <= N_STEPS * 0.1 + 8 * BATCH * SAMPLE
    else:
        assert found == pytest.approx(expected, rel=0.01)


def test_the_second_epoch_of_a_node_cache_comes_from_the_drive(tmp_path: Path) -> None:
    first = seconds(STAGES[6], tmp_path / "1", workers=1, step=0.0, epochs=1, blocks=True)
    both = seconds(STAGES[6], tmp_path / "2", workers=1, step=0.0, epochs=2, blocks=True)
    assert both - first == pytest.approx(N_STEPS * BATCH * (CACHED * 1e-9 + 1e-3), rel=0.01)
    # ranks of a node fetch each part once, of two nodes once for each
    for nodes, fetches in ((1, 1), (2, 2)):
        folder = tmp_path / f"{nodes} nodes"
        seconds(STAGES[6], folder, ranks=2, nodes=nodes, workers=1, step=0.0, epochs=1, blocks=True)
        rows = {one.name: one for one in summarise(folder / "trace").functions}
        assert rows["cache.fetch"].count == fetches * N_STEPS * BATCH


def test_names_locks_and_pauses_take_the_time_that_they_should() -> None:
    def program(rank: int) -> list[Operation]:
        if rank == 0:
            return [Pause(50), Announce("ready"), Acquire("a"), Pause(30), Release("a")]
        return [Await("ready"), Acquire("a"), Compute(20), Release("a"), Await("ready")]

    found = EmulatedMachine(PLAIN, [0, 0, 0]).run(lambda rank: iter(program(rank)))
    assert [one.end for one in found] == [80, 100, 120]
    assert [one.phases["wait"] for one in found] == [0, 80, 100] and found[0].phases["compute"] == 80
    with pytest.raises(Exception, match="wait for each other: 1 never continue"):
        EmulatedMachine(PLAIN, [0]).run(lambda _rank: iter([Await("never")]))


def test_the_command_gives_the_same_bits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    np.savez(tmp_path / "samples.npz", x=chance.normal(size=(24, 6)), y=chance.integers(0, 9, 24))
    monkeypatch.setattr(study, "STAGES", (STAGES[0], STAGES[4], STAGES[6]))
    words = ("samples.npz", "--step", "0.01", "--batch", 4, "--workers", 2, "--epochs", 2, "--scratch", tmp_path)
    lab = ("--lab", "lustre", "--stripes", 8, "--cpu-per-sample", "20,4,4")
    done = call_kinema("ml", "bench", *words, *lab, "-o", "out", "--trace", "traces", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "**Emulated, not measured**: the platform lustre with 1 node" in done.stdout
    again = call_kinema("ml", "bench", *words, *lab, "-o", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    for name in ("results.json", "report.md", "stages.png"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["machine"]["emulated"]["name"] == "lustre" and results["file_system"] == "lustre, 8 stripes a file"
    assert results["cpu_per_sample"] == {
        "NPZ files, NumPy": 20, "one HDF5, Kinema": 4, "one HDF5, node cache, Kinema": 4,
    }  # fmt: skip
    assert "torch reads in processes of its own" in results["notes"][0]
    # six steps of two epochs, and each sample's bytes in each
    for row in results["rows"]:
        assert row["total"] >= 12 * 0.01 and row["bytes"] >= 2 * 24 * (6 + 1) * 8
    kept = summarise(tmp_path / "traces" / "npz-files-numpy")
    assert kept.hosts == ("emulated-lustre-0",) and kept.job.total == round(results["rows"][0]["total"] * 1e9)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--step", "0", "--nodes", "2"), "--nodes is for an emulated cluster: it needs --lab"),
        (("--step", "0", "--cpu-per-sample", "1"), "--cpu-per-sample is for an emulated cluster: it needs --lab"),
        (("--lab", "lustre"), "--lab is of the stages of --step, and there are none"),
        (("--step", "0", "--lab", "lustre", "--stripes", "97"), "stripes must be from 1 to the 96 targets of lustre"),
        (("--step", "0", "--lab", "lustre", "--nodes", "2"), "nodes must be from 1 to the number of ranks, 1, found 2"),
        (("--step", "0", "--lab", "lustre", "--ranks", "129"), "ranks must be at most 128"),
        (("--step", "0", "--lab", "lustre", "--page-cache", "warm"), "every byte comes from the storage"),
        (("--step", "0", "--lab", "lustre", "--cpu-per-sample", "1,2"), "or 6 numbers of microseconds"),
    ],
)
def test_what_the_laboratory_cannot_do_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((4, 2)))
    done = call_kinema("ml", "bench", "s.npz", "--batch", 2, *words, "-o", "out", cwd=tmp_path)
    assert done.returncode == 2 and told in done.stderr
