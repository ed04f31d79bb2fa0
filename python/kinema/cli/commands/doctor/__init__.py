"""`kinema doctor`: what a report of a problem needs to say of the machine, and what is wrong with it."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Annotated

import typer

from kinema.cli import exit_codes
from kinema.cli.command_line import Command
from kinema.cli.commands.doctor.probes import PROBES, ProbeResult
from kinema.cli.numbers import decimal

__all__ = ["doctor"]

# how long a process that is killed may take to end
_SECONDS_TO_END = 1.0


def doctor(
    context: typer.Context,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that each probe may take.", **decimal(0.1, 3600))
    ] = 20.0,
) -> None:
    """Show versions, extras, MPI, HDF5, cores, limits and folders, for a report of a problem.

    It prints a line for each, with a remedy if something is wrong; the exit code is then 1. User names and environment
    variables are not printed. A probe that does not answer within --timeout is ended and reported.
    """
    command: Command = context.obj
    findings = [without_names(one) for one in look(list(PROBES), timeout)]
    command.print_result(lambda: {"findings": [asdict(one) for one in findings]}, lambda: "\n".join(_lines(findings)))
    if any(one.state == "trouble" for one in findings):
        raise typer.Exit(exit_codes.PROBLEMS)


def look(probes: list[str], timeout: float) -> Iterator[ProbeResult]:
    """Results of the probes, in their order. All run at once, each in its own process, for at most `timeout` seconds.

    A probe that fails or does not answer is one finding of trouble.
    """
    with ExitStack() as files:
        # not pipes: what a probe starts could hold them open
        running = [(name, answer := files.enter_context(_answer_file()), _start(name, answer)) for name in probes]
        until = time.monotonic() + timeout
        for name, answer, process in running:
            yield from _findings(name, process, answer, until, timeout)


def _answer_file() -> IO[str]:
    try:
        return tempfile.TemporaryFile("w+")
    except OSError:  # no folder for temporary files, which a probe reports
        return os.fdopen(os.memfd_create("kinema-doctor"), "w+")


def _start(name: str, answer: IO[str]) -> subprocess.Popen[bytes]:
    # -P: a module in the working folder is not taken for one of a package
    words = [sys.executable, "-P", "-m", f"{__name__}.probes", name]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.STDOUT)


def _findings(
    name: str, process: subprocess.Popen[bytes], answer: IO[str], until: float, timeout: float
) -> Iterator[ProbeResult]:
    try:
        code = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a process that reads from a dead mount does not end
            process.wait(_SECONDS_TO_END)
        title = name.replace("_", " ")
        yield ProbeResult(
            title, "trouble", f"no answer within {timeout:g} s", "see whether a file system or an MPI hangs"
        )
        return
    answer.seek(0)
    printed = answer.read()
    _, marker, found = printed.rpartition("findings:")
    if code == 0 and marker:
        yield from (ProbeResult(**one) for one in json.loads(found))
        return
    why = next((line for line in reversed(printed.splitlines()) if line.strip()), f"it ended with code {code}")
    yield ProbeResult(name.replace("_", " "), "trouble", why.strip(), f"try it: python -m {__name__}.probes {name}")


def without_names(finding: ProbeResult) -> ProbeResult:
    """The finding without the home folder and the user's name, which are nobody else's business."""
    home = str(Path.home())
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        user = ""

    def plain(text: str) -> str:
        text = text.replace(home, "~") if len(home) > 1 else text
        return "/".join("USER" if user and part == user else part for part in text.split("/"))

    return replace(finding, value=plain(finding.value), remedy=plain(finding.remedy))


def _lines(findings: list[ProbeResult]) -> Iterator[str]:
    width = max(len(one.name) for one in findings)
    for one in findings:
        sign = {"ok": "  ", "absent": "- ", "trouble": "! "}[one.state]
        remedy = f"; remedy: {one.remedy}" if one.remedy else ""
        yield f"{sign}{one.name:{width}}  {one.value}{remedy}"
