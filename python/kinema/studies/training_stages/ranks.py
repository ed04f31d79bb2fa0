"""The ranks of a stage: their programs begin together, train with a trace, and end with their first batch."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kinema.base.errors import CorruptFileError, WorkerError
from kinema.runners.local.interpreter import module_command
from kinema.studies import files
from kinema.studies.launching import child_environment, said_last
from kinema.studies.sample_loading.layouts import Samples
from kinema.studies.training_stages.design import Stage, StagesDesign
from kinema.studies.training_stages.rank_loop import checksum

_SECONDS_TO_END = 5.0


def train(
    stage: Stage, design: StagesDesign, samples: Samples, path: Path, folder: Path, trace: str, **other: Any
) -> None:
    """Runs the ranks of a stage with a trace, and compares their first batches with the samples.

    `folder` gets settings, of which `other` replaces some, and the node cache.
    """
    settings = stage_settings(stage, design, samples, path)
    settings |= {"trace": trace, "node_cache": f"{folder}/node-cache" if stage.node_cache else None, **other}
    settings_file = folder / "settings.json"
    settings_file.write_text(json.dumps(settings), encoding="utf-8")
    commands = [
        module_command("kinema.studies.training_stages.rank_loop", settings_file, rank) for rank in range(design.ranks)
    ]

    def forget() -> None:
        if design.page_cache == "drop":
            files.forget([str(one) for one in (sorted(path.iterdir()) if path.is_dir() else [path])])

    for found in _trained(stage, commands, design.limit, forget):
        ids = found["ids"]
        expected = checksum(settings["fields"], {name: array[ids] for name, array in samples.arrays.items()})
        if found["checksum"] != expected:
            raise CorruptFileError(f"{stage.name}: a batch has other values than its samples")


def stage_settings(stage: Stage, design: StagesDesign, samples: Samples, path: Path) -> dict[str, Any]:
    """Settings of the program of a rank, without trace and node cache."""
    return {
        "files": stage.files, "loop": stage.loop, "path": str(path), "fields": list(samples.arrays),
        "samples": len(samples), "batch": design.batch, "step": design.step, "epochs": design.epochs,
        "workers": design.workers, "ranks": design.ranks, "seed": design.seed, "next_epoch": True, "node_cache": None,
    }  # fmt: skip


def _trained(
    stage: Stage, commands: Sequence[Sequence[str]], limit: float, forget: Callable[[], None]
) -> list[dict[str, Any]]:
    """Results of the ranks, which begin at the same time. None of their processes is left."""
    environment = {name: value for name, value in child_environment().items() if not name.startswith("KINEMA_TRACE")}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in commands]
        ranks = [
            subprocess.Popen(
                words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                errors="replace",
            )
            for words, log in zip(commands, logs, strict=True)
        ]  # fmt: skip
        late = threading.Event()

        def end() -> None:
            for rank in ranks:
                rank.kill()

        def stop() -> None:
            late.set()
            end()

        clock = threading.Timer(limit, stop)
        clock.start()
        try:
            ready = [rank.stdout is not None and rank.stdout.readline() == "ready\n" for rank in ranks]
            # opening small files has read all of them
            forget()
            if all(ready):
                for rank in ranks:
                    assert rank.stdin is not None
                    with suppress(BrokenPipeError):
                        rank.stdin.write("\n")
                        rank.stdin.flush()
                said = [rank.communicate()[0] for rank in ranks]
            else:
                end()
                said = [""] * len(ranks)
        finally:
            clock.cancel()
            end()
            for rank in ranks:
                rank.wait(_SECONDS_TO_END)
                for pipe in (rank.stdin, rank.stdout):
                    if pipe is not None:
                        with suppress(BrokenPipeError):
                            pipe.close()
        if late.is_set():
            raise WorkerError(f"{stage.name}: not done after {limit:g} s")
        # a rank that has not begun is the reason why the others were ended
        failed = [number for number, one in enumerate(ready) if not one]
        failed += [number for number, rank in enumerate(ranks) if rank.returncode != 0]
        if failed:
            logs[failed[0]].seek(0)
            raise WorkerError(f"{stage.name}: rank {failed[0]} failed: {said_last(logs[failed[0]].read())}")
        return [json.loads(said_last(text)) for text in said]
