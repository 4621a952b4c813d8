"""Turns seconds, bytes and counts into text with three significant digits and a printed unit.

Inside the product everything is seconds and bytes; ms and GiB begin here. Decimal prefixes are powers of ten, binary ones
(KiB, MiB, GiB) powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.metrics import METRICS
from bench.records import Json, Scalar

Ladder = Sequence[tuple[float, str]]

TIME: Ladder = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
MEMORY: Ladder = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
FREQUENCY: Ladder = ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"))
COUNT: Ladder = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))

NO_FLOAT = 10**300
"""Whole numbers from here on are no measurement, and few of them fit in a float; imported rows may hold them."""

EN_DASH = "–"
MOST_TIMES = 1000
LEAST_PERCENT = 1e-5
"""Smaller shares of one are written with an exponent."""
LARGEST_PERCENT = 10.0
"""From here on a ratio is written as a multiple."""

NO_BREAK = "\u00a0"


def digits(value: float) -> str:
    """Three significant digits without an exponent: 1.20, 12.0, 120, 1234."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 999.5:
        return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.2e}"
    return f"{value:#.3g}".rstrip(".")


def rung(value: float, ladder: Ladder) -> tuple[float, str]:
    """The scale and name of the unit of `ladder` that suits `value`."""
    # A value that rounds up to the next unit belongs there: 999.9 µs reads 1.00 ms.
    return next((rung for rung in ladder if abs(value) >= rung[0] * 0.9995), ladder[-1])


def scaled(value: float, ladder: Ladder) -> str:
    """`value` in the unit of `ladder` that suits it."""
    scale, unit = rung(value, ladder)
    if unit == "B" and value == int(value):
        return f"{int(value)} B"
    return f"{digits(value / scale)} {unit}".rstrip()


def scaled_range(low: float, high: float, ladder: Ladder) -> str:
    """`low` to `high` in one unit, that of `high`."""
    scale, unit = rung(high, ladder)
    if unit == "B":
        return f"{low:.0f}{EN_DASH}{high:.0f} B"
    first, second = digits(low / scale), digits(high / scale)
    return f"{first}{EN_DASH}{second} {unit}".rstrip() if first != second else f"{first} {unit}".rstrip()


def seconds(value: float) -> str:
    """Seconds as s, ms, µs or ns."""
    return scaled(value, TIME)


def size(value: float) -> str:
    """Bytes as B, KiB, MiB, GiB or TiB (powers of 2)."""
    return scaled(value, MEMORY)


def rate(value: float, unit: str) -> str:
    """A count per second with a decimal prefix: `1.20 Gflop/s`."""
    scale, prefix = rung(value, COUNT)
    return f"{digits(value / scale)} {prefix}{unit}"


CYCLES: Ladder = ((1e9, "Gcycles"), (1e6, "Mcycles"), (1e3, "kcycles"), (1.0, "cycles"))

LADDERS: dict[str, Ladder] = {"s": TIME, "byte": MEMORY, "Hz": FREQUENCY, "cycle": CYCLES}


def in_unit(value: float, unit: str) -> str:
    """A number of a metric whose unit is `unit`, as `bench.metrics.METRICS` spells units. A count has none."""
    ladder = LADDERS.get(unit)
    if ladder:
        return scaled(value, ladder)
    if unit == "count":
        return f"{value:.0f}" if value == int(value) else digits(value)
    if unit == "ratio":
        return _shares(value, value)
    return f"{digits(value)} {unit}"


def _shares(low: float, high: float) -> str:
    """A range of shares of one, both written as the higher one asks for: percent, a multiple, or an exponent."""
    if high < LEAST_PERCENT:
        first, second, unit = scientific(low), scientific(high), ""
    elif high < LARGEST_PERCENT:
        first, second, unit = digits(low * 100), digits(high * 100), " %"
    else:
        first, second, unit = digits(low), digits(high), "×"
    return f"{first}{EN_DASH}{second}{unit}" if first != second else f"{second}{unit}"


def range_in_unit(low: float, high: float, unit: str) -> str:
    """The same for a range."""
    ladder = LADDERS.get(unit)
    if ladder:
        return scaled_range(low, high, ladder)
    if unit == "ratio":
        return _shares(low, high)
    first, second = in_unit(low, unit), in_unit(high, unit)
    return second if first == second else f"{first.partition(' ')[0]}{EN_DASH}{second}"


def ratio(value: float) -> str:
    """`0.523×`; beyond a thousand only that: something beside almost nothing is no factor that anybody needs."""
    return f"{digits(value)}×" if value <= MOST_TIMES else f"> {MOST_TIMES}×"


def shorten(text: str, limit: int = 300) -> str:
    """The text, or its beginning with how much was left out."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def listed(labels: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def percent(value: float) -> str:
    """A share of one as a percentage with one digit below ten."""
    return f"{value * 100:.1f} %" if abs(value) < 0.0995 else f"{value * 100:.0f} %"


def scientific(value: float) -> str:
    """A numerical error: two digits and an exponent."""
    return "0" if value == 0 else f"{value:.1e}"


_BY_SUFFIX: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bytes", size),
    ("_hz", lambda value: scaled(value, FREQUENCY)),
    ("_s", seconds),
    ("_w", lambda value: f"{digits(value)} W"),
    ("_j", lambda value: f"{digits(value)} J"),
    ("_c", lambda value: f"{value:g} °C"),
    ("_share", percent),
)


def fact(name: str, value: Scalar) -> str:
    """A named fact of the environment or the conditions; the ending of its name (`_bytes`, `_s` …) says the unit."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) >= NO_FLOAT:
        return f"about {'-' if value < 0 else ''}1e{math.log10(abs(value)):.0f}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        last = name.rsplit(".", 2)
        for part in reversed(last):
            for suffix, write in _BY_SUFFIX:
                if part.endswith(suffix):
                    return write(float(value))
        return str(value) if isinstance(value, int) else f"{value:.6g}"
    return value


def flatten(data: Json, prefix: str = "") -> list[tuple[str, Scalar]]:
    """Nested JSON as sorted pairs of dotted name and scalar; lists of scalars become one text."""
    if isinstance(data, dict):
        return [pair for key in sorted(data, key=str) for pair in flatten(data[key], f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(data, list | tuple):
        if all(item is None or isinstance(item, str | int | float) for item in data):
            return [(prefix, ", ".join(fact(prefix, item) for item in data) if data else "none")]
        return [pair for position, item in enumerate(data) for pair in flatten(item, f"{prefix}.{position}")]
    return [(prefix, data)]


def metric_unit(metric: str) -> str:
    """The unit of a metric by name, or nothing for a name that this version does not know."""
    return METRICS[metric].unit if metric in METRICS else ""
