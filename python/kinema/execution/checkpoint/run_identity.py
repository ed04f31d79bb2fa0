"""The identity of a run: a list of all facts that decide its results, each with a description for users.

Workers, memory and runner are left out: results do not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kinema import _core
from kinema.execution.checkpoint.file import IdentityItem
from kinema.execution.checkpoint.identity_items import (
    digest_of,
    item_of_frames,
    items_of_files,
    items_of_transform,
    items_of_value,
    plain,
)
from kinema.execution.computation import Computation
from kinema.model.selection.frames import FrameSelection
from kinema.runners.base import Job


def items_of_run(analyses: Sequence[Computation], frames: FrameSelection, results: str) -> list[IdentityItem]:
    """Items of the whole run: version, analyses with their arguments, files, frames, and the target of results."""
    items = [
        # other versions may round differently
        plain("the version of Kinema", _core.__version__),
        plain("the analyses", ", ".join(type(analysis).__name__ for analysis in analyses)),
    ]
    for name, analysis in _named(analyses):
        selection = analysis.selection
        label = f"{selection.n_atoms} atoms ({selection.description})"
        items.append(IdentityItem(f"the selection of {name}", digest_of(selection.indices), label))
        arguments = analysis.arguments.items()
        items += [plain(f"{argument} of {name}", str(value)) for argument, value in arguments if argument != "select"]
    items += items_of_files(analyses[0].trajectory)
    items.append(item_of_frames(frames))
    items.append(plain("the results", results))
    return items


def items_of_pass(
    number: int, analyses: Sequence[Computation], jobs: Sequence[Job], plan: _core.Plan
) -> list[IdentityItem]:
    """Items of one pass: leaves, each analysis's kernel with its version and arguments, and transforms."""
    items = [
        plain("what is divided into leaves", plan.domain),
        plain(f"the {plan.domain} of a leaf", str(plan.leaf_frames)),
        plain("the number of leaves", str(plan.n_leaves)),
    ]
    for (name, _), (kernel, transforms) in zip(_named(analyses), jobs, strict=True):
        items += items_of_job(kernel, transforms, f"of {name}, round {number + 1}")
    return items


def items_of_job(kernel: _core.Kernel, transforms: Sequence[_core.Transform], where: str) -> list[IdentityItem]:
    """Items of a kernel, with its version and arguments, and of its transforms; `where` says whose they are."""
    items = [plain(f"the partial {where}", kernel.id), *_items_of_kernel(kernel, where)]
    items.append(plain(f"the number of transforms {where}", str(len(transforms))))
    for place, transform in enumerate(transforms):
        items += items_of_transform(transform, f"in transform {place + 1} {where}")
    return items


def _named(analyses: Sequence[Computation]) -> Iterator[tuple[str, Computation]]:
    names = [type(analysis).__name__ for analysis in analyses]
    for number, (name, analysis) in enumerate(zip(names, analyses, strict=True)):
        yield (f"{name} (analysis {number + 1})" if names.count(name) > 1 else name), analysis


def _items_of_kernel(made: _core.Kernel, where: str) -> Iterator[IdentityItem]:
    """Items of the call that made a kernel, one per argument."""
    _, (_, name_of_kind, arguments) = made.__reduce__()
    yield plain(f"the kind {where}", name_of_kind)
    for name, value in arguments.items():
        yield from items_of_value(f"{name} {where}", value)
