"""Choosing a runner by name, with the options that it takes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

from kinema.base.errors import ArgumentError
from kinema.runners.base import PassRequest, PassResult, Runner


class RunnerOptions(TypedDict, total=False):
    """Options of runners, without the number of workers; None is the same as leaving an option out.

    Attributes
    ----------
    threads_per_worker : int
        Threads of a process, a Dask task or an MPI rank; 1 by default.
    schedule : {"dynamic", "static"}
        Whether pieces go to idle workers, or each worker has a contiguous share.
    oversubscribe : int
        Least number of pieces of work for each worker, if there are enough leaves.
    gather : {"collective", "one-sided"}
        How results of MPI ranks are gathered.
    results : {"root", "all", "spread"}
        Which MPI ranks have results.
    """

    threads_per_worker: int | None
    schedule: str | None
    oversubscribe: int | None
    gather: str | None
    results: str | None


class _RegisteredRunner(NamedTuple):
    """Module and class of a runner, and the options that it takes."""

    module: str
    class_name: str
    options: tuple[str, ...] = ()


_SCHEDULING = ("threads_per_worker", "schedule", "oversubscribe")
# only the requested runner is imported, because some import large packages
_RUNNERS = {
    "serial": _RegisteredRunner("kinema.runners.local.serial", "SerialRunner"),
    "threads": _RegisteredRunner("kinema.runners.local.threads", "ThreadsRunner"),
    "processes": _RegisteredRunner("kinema.runners.local.processes", "ProcessesRunner", _SCHEDULING),
    "dask": _RegisteredRunner("kinema.runners.dask.runner", "Dask", _SCHEDULING),
    "mpi": _RegisteredRunner("kinema.runners.mpi.runner", "MPIRunner", (*_SCHEDULING, "gather", "results")),
}


def choose_runner(runner: str | Runner | None, **options: Unpack[RunnerOptions]) -> Runner:
    """Chooses a runner by name, with its options.

    Parameters
    ----------
    runner : {"serial", "threads", "processes", "dask", "mpi"} or Runner, optional
        A runner object is returned itself. None: "threads".
    **options
        As in `RunnerOptions`.

    Returns
    -------
    Runner

    Raises
    ------
    ArgumentError
        For an unknown name, an object without `map_reduce`, options that the runner does not take, and any option with
        a runner that is already made.
    MissingPackageError
        If the package that the runner needs is not installed.
    """
    name = "threads" if runner is None else runner
    if isinstance(name, str):
        given = options_of(name, options)
        known = _RUNNERS[name]
        made: Runner = getattr(importlib.import_module(known.module), known.class_name)(**given)
        return made
    if not callable(getattr(name, "map_reduce", None)) or isinstance(name, type):
        raise ArgumentError(f"runner is a name or a kinema.runners.Runner, found {type(name).__name__}")
    for option, value in options.items():
        if value is not None:
            raise ArgumentError(
                f"{option} goes to the runner when it is made: {type(name).__name__}({option}={value!r})"
            )
    return name if isinstance(name, Runner) else _OwnRunner(name)


def runner_of(options: Mapping[str, Any]) -> tuple[Runner, dict[str, Any]]:
    """The runner that the arguments of `kinema.run` name, and the remaining arguments. Raises as `choose_runner`."""
    of_runner = {name: value for name, value in options.items() if name in RunnerOptions.__annotations__}
    others = {name: value for name, value in options.items() if name not in of_runner and name != "runner"}
    return choose_runner(options.get("runner"), **of_runner), others


class _OwnRunner(Runner):
    """Wraps a user's object that has `map_reduce` but does not derive from `Runner`, and adds that class's defaults."""

    def __init__(self, own: Any) -> None:
        self.name = getattr(own, "name", type(own).__name__)
        self._own = own

    def map_reduce(self, request: PassRequest) -> PassResult:
        result: PassResult = self._own.map_reduce(request)
        return result


def options_of(name: str, options: RunnerOptions, spell: Callable[[str], str] = str) -> dict[str, Any]:
    """The options that are not None, for the runner of that name; errors spell them with `spell`.

    Raises ArgumentError for an unknown name, and for an option that the runner does not take.
    """
    if name not in _RUNNERS:
        raise ArgumentError(f"runner must be one of {', '.join(map(repr, _RUNNERS))}, found {name!r}")
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in _RUNNERS[name].options:
            fitting = " and ".join(one for one, known in _RUNNERS.items() if option in known.options)
            if not fitting:
                raise ArgumentError(f"no runner takes the option {spell(option)}")
            raise ArgumentError(
                f"{spell(option)} is for the runner {fitting}, and this is {name}; leave it out or name another runner"
            )
    return given
