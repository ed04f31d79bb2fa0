"""A typer command that refuses a single option given twice; typer itself would take the last value."""

from collections import Counter
from typing import Any

import typer.core

from kinema.base.errors import ArgumentError


class SingleOptionsCommand(typer.core.TyperCommand):
    """Raises ArgumentError for an option that occurs twice, in any spelling, unless it takes several values."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def checked(args: list[str]) -> Any:
            result = parse(args=args)
            # one entry for each time that a parameter occurs on the line
            for parameter, times in Counter(result[2]).items():
                if times > 1 and parameter.param_type_name == "option" and not parameter.multiple:
                    names = "/".join([*parameter.opts, *parameter.secondary_opts])
                    raise ArgumentError(f"{names} was given {times} times; it is given once")
            return result

        parser.parse_args = checked  # type: ignore[method-assign]
        return parser
