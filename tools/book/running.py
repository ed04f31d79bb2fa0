"""`Runs`: runs each experiment of the book once; a later call continues after the last one that finished."""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.items import ENVIRONMENTS, Experiment, Plan

Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]
# of a program that failed
_LINES = 3
DONE = "done.json"


# Open MPI starts no ranks as root, and not more than cores, without these; other MPI libraries do not know them
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def run_command(words: Sequence[str], python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Runs `kinema` with these words as a program of an interpreter."""
    environment = _OPEN_MPI | os.environ
    return subprocess.run(
        [python, "-m", "kinema", *words], env=environment, capture_output=True, text=True, check=False
    )


@dataclass(frozen=True)
class Done:
    """An experiment that has run: its commands, seconds, and why it failed, or ""."""

    commands: Sequence[str]
    seconds: float
    failed: str = ""


class Runs:
    """Experiments in a folder, each in a folder of its own that is complete if it has the file `done.json`.

    An experiment whose commands have changed is run again. `run` runs a command of `kinema`; `environments` have
    others for the experiments that name them.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        size: str,
        run: Run,
        notify: Callable[[str], None],
        environments: Mapping[str, Run] | None = None,
    ) -> None:
        self._plan, self._run, self._notify = plan, run, notify
        self._environments = environments or {}
        self.folder = folder
        self.numbers = plan.sizes[size]
        self._done: dict[str, Done] = {}

    def folder_of(self, experiment: str) -> Path:
        """The folder of an experiment."""
        return self.folder / experiment

    def environment_of(self, name: str) -> str:
        """The command that makes the environment of an experiment; "" if it needs none of its own."""
        return ENVIRONMENTS.get(self._plan.experiments[name].environment, "") if name else ""

    def missing(self, name: str) -> str:
        """Why an experiment cannot run here: its environment is not there; "" if it can."""
        experiment = self._plan.experiments[name]
        wanted = experiment.environment
        if not wanted or wanted in self._environments or self._stored(experiment):
            return ""
        return f"needs the environment of `{ENVIRONMENTS[wanted]}`, which is not there"

    def words(self, command: str, out: Path, **more: Any) -> list[str]:
        """The words of a command, with folders and numbers in place of names, and file patterns expanded."""
        places = {name: str(self.folder_of(name)) for name in self._plan.experiments}
        filled = command.format(out=out, **places, **self.numbers, **more)
        found: list[str] = []
        for word in shlex.split(filled):
            found += sorted(glob.glob(word)) or [word] if "*" in word else [word]
        return found

    def complete(self, name: str) -> Done:
        """Runs an experiment, and what it needs, unless it has run."""
        if name in self._done:
            return self._done[name]
        experiment = self._plan.experiments[name]
        for needed in experiment.needs:
            before = self.complete(needed)
            if before.failed:
                return self._keep(name, Done((), 0.0, f"{needed} failed: {before.failed}"))
        return self._keep(name, self._stored(experiment) or self._carried_out(experiment))

    def shown(self, name: str) -> list[str]:
        """Commands of an experiment and of what it needs, as a reader would give them: relative to one folder."""
        experiment = self._plan.experiments[name]
        found = [command for needed in experiment.needs for command in self.shown(needed)]
        places = {one: one for one in self._plan.experiments}
        return [*found, *(one.format(out=name, **places, **self.numbers) for one in experiment.commands)]

    def _keep(self, name: str, done: Done) -> Done:
        self._done[name] = done
        return done

    def _commands(self, experiment: Experiment) -> list[str]:
        out = self.folder_of(experiment.name)
        return [shlex.join(self.words(command, out)) for command in experiment.commands]

    def _stored(self, experiment: Experiment) -> Done | None:
        path = self.folder_of(experiment.name) / DONE
        if not path.exists():
            return None
        found = Done(**json.loads(path.read_text()))
        return found if list(found.commands) == self._commands(experiment) else None

    def _carried_out(self, experiment: Experiment) -> Done:
        out = self.folder_of(experiment.name)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        commands, began, failed = self._commands(experiment), time.monotonic(), ""
        for command in experiment.commands:
            words = self.words(command, out)
            self._notify(f"{experiment.name}: kinema {shlex.join(words)}")
            ended = self._environments.get(experiment.environment, self._run)(words)
            (out / "log.txt").open("a").write(f"$ kinema {shlex.join(words)}\n{ended.stdout}{ended.stderr}\n")
            if ended.returncode != 0:
                said = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()][-_LINES:]
                failed = f"exit {ended.returncode}: {' '.join(said)}"
                break
        done = Done(commands, round(time.monotonic() - began, 1), failed)
        if not failed:
            (out / DONE).write_text(json.dumps({"commands": commands, "seconds": done.seconds}))
        return done

    def show(self, command: str, experiment: str, picture: Path) -> tuple[str, str]:
        """Runs a command that draws or prints. Returns its output, and why it failed, or ""."""
        ended = self._run(self.words(command, self.folder_of(experiment), picture=picture))
        if ended.returncode == 0:
            return ended.stdout, ""
        return "", (ended.stderr or ended.stdout).strip().splitlines()[-1]

    def numbers_of(self, experiment: str, operand: Mapping[str, Any]) -> float:
        """The number of an operand of a check. Raises LookupError if nothing has it."""
        out = self.folder_of(experiment)
        if "file" in operand:
            found: Any = json.loads((out / operand["file"]).read_text())
            for key in str(operand["at"]).split("."):
                found = found[int(key)] if isinstance(found, list) else found[key]
            return float(found)
        from kinema.report import Report

        wanted = {name: value for name, value in operand.items() if name != "quantity"}
        values = []
        for path in sorted((out / "reports").glob("*.json")):
            report = Report.load(path)
            usual = {"format": "as is", "source": "file", "reader": "kinema"}
            facts = {**usual, "access": report.timings.access, "runner": report.timings.runner, **report.extra}
            if all(facts.get(name) == value for name, value in wanted.items()):
                values.append(getattr(report.quantities, operand["quantity"]))
        if not values:
            raise LookupError(f"no run has {wanted}")
        return float(sum(values) / len(values))
