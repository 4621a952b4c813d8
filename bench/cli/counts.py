"""Numbers as options take them: what is none is refused in plain words, with the digits of what was meant where that can be told."""

from __future__ import annotations

import re
from typing import Any

import click

THOUSANDS = re.compile(r"(\d+)[kK]")


class Whole(click.IntRange):
    """A whole number within bounds. `4k` is refused, since it may be 4096 or 4000."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and (shortened := THOUSANDS.fullmatch(value)):
            count = int(shortened[1])
            self.fail(f"{value!r} is not a whole number: write {count * 1024} or {count * 1000}.", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
