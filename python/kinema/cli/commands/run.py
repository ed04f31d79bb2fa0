"""`kinema run`: several analyses in one pass over one trajectory, as a job file says."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError, Error
from kinema.base.printable import printable
from kinema.cli.options import shared as options
from kinema.cli.streams import print_out

if TYPE_CHECKING:
    import kinema as kn
    from kinema.analysis.declared import DeclaredAnalysis
    from kinema.cli.command_line import Command
    from kinema.cli.jobs.job import Job, JobAnalysis
    from kinema.cli.jobs.text import Place
    from kinema.cli.options.analyses import Outputs
    from kinema.cli.periodic.inputs import Inputs


def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB.toml", help="Job file; - for stdin. With --template, analyses."),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a job file to start from, with the named analyses or all.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TABLE.KEY=VALUE",
            help="Override a value of the file: run.workers=4, analysis.0.select='name CA'.",
        ),
    ] = None,
    force: options.Force = False,
) -> None:
    """Several analyses in one pass over one trajectory, as a job file (TOML) says."""
    from kinema.cli.jobs.job import checked_job
    from kinema.cli.jobs.text import read_text, with_settings

    if template:
        _print_template(names or [], settings or [])
        return
    if len(names or []) != 1:
        raise ArgumentError("kinema run takes one job file; kinema run --template prints one to begin with")
    (path,) = names or [""]
    # --force is never a key of the file, which may come from a stranger
    _run(context.obj, checked_job(with_settings(read_text(path), settings or [])), force)


def _print_template(names: list[str], settings: list[str]) -> None:
    from kinema.cli.jobs.template import template

    if settings:
        raise ArgumentError("--set is for a job that is run, not for --template")
    for name in names:
        if name not in ANALYSES:
            raise ArgumentError(f"{name} is not an analysis, expected one of {', '.join(ANALYSES)}")
    print_out(template(names or list(ANALYSES)).rstrip("\n"))


def _run(command: "Command", job: "Job", force: bool) -> None:
    from kinema.cli.analysis_run import facts, lines_of, opened, run_together, transformed
    from kinema.cli.options.analyses import FrameOptions, Opening, Outputs, SeriesOutputs, Workers
    from kinema.cli.periodic.inputs import UnselectedInputs

    given = {**job.trajectory, **job.run}
    window = FrameOptions(**_given_options(FrameOptions, given))
    whole = SeriesOutputs(output=given.get("out"), force=force, **_given_options(Outputs, job.run))
    workers, opening = _given_options(Workers, given), _given_options(Opening, given)
    outputs = [_outputs(one, force) for one in job.analyses]
    inputs = [_inputs(job, one) for one in job.analyses]
    with whole.checkpoint_noted():
        _check_outputs(job, whole, outputs, inputs)
        whole_inputs = UnselectedInputs(**_given_options(UnselectedInputs, job.trajectory))
        trajectory = opened(whole_inputs, Opening(**opening))
        trajectory = transformed(
            command, trajectory, whole_inputs, Opening(**opening), Workers(**workers), window, whole
        )
        analyses = [_made(job, one, trajectory, named) for one, named in zip(job.analyses, inputs, strict=True)]
        run_together(
            command,
            trajectory,
            list(zip(analyses, outputs, strict=True)),
            whole,
            opening=Opening(**opening),
            window=window,
            workers=Workers(**workers),
        )
    together = list(zip(analyses, outputs, strict=True))
    common = [str(path) for path in (whole.output, whole.report) if path is not None]
    command.print_result(
        lambda: {
            "analyses": [facts(command, trajectory, *one) for one in together],
            "outputs": [*(name for one in outputs for name in one.written), *common],
        },
        lambda: "\n".join(
            printable(line)
            for number, one in enumerate(together)
            for line in _summary(lines_of(trajectory, *one, whole.checkpoint), number == 0, one[1])
        ),
        on_stderr=any(one.use_stdout for one in outputs),
    )


def _summary(lines: list[str], is_first: bool, outputs: "Outputs") -> list[str]:
    """The lines of an analysis that say something new: all analyses share one speed."""
    return [lines[0], *(lines[1:-1] if is_first else []), *(lines[-1:] if outputs.written else [])]


def _given_options(group: type, given: Any) -> dict[str, Any]:
    """The given fields of a group of options."""
    return {name: given[name] for name in group.__dataclass_fields__ if name in given}  # type: ignore[attr-defined]


def _outputs(one: "JobAnalysis", force: bool) -> "Outputs":
    from kinema.cli.options.output_groups import outputs_of

    group = outputs_of(one.analysis)
    return group(force=force, **_given_options(group, one.given))


def _inputs(job: "Job", one: "JobAnalysis") -> "Inputs":
    from kinema.cli.periodic.inputs import Inputs

    group = one.given.get("group")
    if group is not None and "index_file" not in job.trajectory:
        raise job.error(one.number, "group names a group of an index file; give index_file in [trajectory]", "group")
    # the index file only names groups
    named: dict[str, Any] = {
        **_given_options(Inputs, job.trajectory),
        **({} if group is not None else {"index_file": None}),
    }
    named.update((name, one.given.get(name)) for name in ("select", "group"))
    return Inputs(**named)


def _check_outputs(job: "Job", whole: "Outputs", outputs: "list[Outputs]", inputs: "list[Inputs]") -> None:
    """Before anything is read, refuses outputs that cannot be written, and files that are named twice."""
    from pathlib import Path

    from kinema.analysis.declaration import arguments_of
    from kinema.cli.options.analyses import named_outputs

    read = [*inputs[0].paths, inputs[0].topology, job.trajectory.get("index_file")]
    for one in job.analyses:
        files = [argument.name for argument in arguments_of(one.analysis) if argument.kind in ("file", "tuples")]
        read += [Path(one.given[name]) for name in files if isinstance(one.given.get(name), (str, Path))]
    tables: list[tuple[Place, Outputs]] = [(("run",), whole)]
    tables += [(("analysis", one.number), own) for one, own in zip(job.analyses, outputs, strict=True)]
    named: set[Path] = set()
    for place, own in tables:
        if own is not whole and own.rows is not None:
            what = f"{own.rows}: values of all analyses are written as they come to one file; name it as out in [run]"
            raise job.text.error((*place, "output"), what)
        for key, path in named_outputs(own):
            if path.resolve() in named and not (path.exists() and not path.is_file()):
                key = "out" if own is whole and key == "output" else key
                raise job.text.error((*place, key), f"{path}: is named twice, give each output a file of its own")
            named.add(path.resolve())
        try:
            own.check(read)
        except Error as error:
            raise job.text.error(place, str(error)) from None


def _made(job: "Job", one: "JobAnalysis", trajectory: "kn.Trajectory", inputs: "Inputs") -> "DeclaredAnalysis":
    """The analysis of a table; errors of its arguments name the table."""
    from kinema.analysis.declaration import arguments_of, takes_select

    try:
        values = {}
        for argument in arguments_of(one.analysis):
            if argument.name in one.given:
                values[argument.name] = _value(argument, one.given[argument.name], trajectory, job)
        if takes_select(one.analysis):
            values["select"] = inputs.of_analysis(trajectory)
        return one.analysis(trajectory, **values)
    except Error as error:
        raise job.error(one.number, f"[[analysis]] of {one.name}: {error}") from None


def _value(argument: Any, given: Any, trajectory: "kn.Trajectory", job: "Job") -> Any:
    """An argument's value, as Python takes it."""
    from pathlib import Path

    from kinema.model.selection.atom_tuples import read_atom_tuples

    if argument.kind == "list of atoms":
        index_file = job.trajectory.get("index_file")
        if index_file is None and any(isinstance(one, dict) for one in given):
            raise ArgumentError(f"{argument.name} names a group of an index file; give index_file in [trajectory]")
        return [
            trajectory.select(index_file=str(index_file), group=one["group"])
            if isinstance(one, dict)
            else trajectory.select(one)
            for one in given
        ]
    if argument.kind == "tuples" and isinstance(given, Path):
        return read_atom_tuples(given, argument.option.atoms_each)
    return None if argument.kind == "choice" and given == "none" else given
