"""Shorter data of SVG paths for the same lines: axis-parallel ones, steps from the last point, arcs for round marks."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"[A-Za-z]|-?\d*\.?\d+(?:e-?\d+)?")
_TAKES = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "Q": 4, "Z": 0}
"""Numbers that a command takes, of those that matplotlib writes, all absolute."""
_RECTANGLE = re.compile(r"(?:M[^A-Za-z]+[Hh][^A-Za-z]+[Vv][^A-Za-z]+[Hh][^A-Za-z]+z)+")
_CURVES_OF_A_CIRCLE = 8
SMALL = 12
"""What lies within so many points is a mark: its digits below a tenth can be seen."""

Step = tuple[str, tuple[float, ...]]


def shorter(data: str) -> str:
    """The same lines, rounded to a tenth of a point, a mark to a hundredth; nothing for a box without an area.

    A path with a command that matplotlib does not write stays as it is given.
    """
    steps = list(_steps(data))
    if not steps or any(command not in _TAKES for command, _ in steps):
        return data
    places = 1 if any(abs(number) > SMALL for _, numbers in steps for number in numbers) else 2
    steps = [(command, tuple(round(number, places) for number in numbers)) for command, numbers in steps]
    return _circle(steps) or _joined(steps, places)


def is_boxes(data: str) -> bool:
    """Whether it is rectangles along the axes and nothing else, as `shorter` writes them."""
    return _RECTANGLE.fullmatch(data) is not None


def points_of(data: str) -> list[tuple[float, float]]:
    """Where its lines end, and its curves with the points that pull them; nothing of a path that goes by arcs."""
    points: list[tuple[float, float]] = []
    x = y = first_x = first_y = 0.0
    for letters, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", data):
        numbers = [float(number) for number in _TOKEN.findall(text)]
        command = letters.upper()
        if command == "A":
            return []
        own = letters.islower() and command != "Z"
        if command == "Z":
            x, y = first_x, first_y
        elif command == "H":
            x = numbers[0] + own * x
            points.append((x, y))
        elif command == "V":
            y = numbers[0] + own * y
            points.append((x, y))
        else:
            ends = [(a + own * x, b + own * y) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
            points += ends
            x, y = ends[-1]
            if command == "M":
                first_x, first_y = x, y
    return points


def _steps(data: str) -> Iterator[Step]:
    """Each command with its own numbers; of a repeated one the letter is not left out."""
    tokens = _TOKEN.findall(data)
    at = 0
    command = ""
    while at < len(tokens):
        if tokens[at].isalpha():
            command = tokens[at].upper() if tokens[at] in "zZ" else tokens[at]
            at += 1
        takes = _TAKES.get(command)
        if takes is None or at + takes > len(tokens) or any(token.isalpha() for token in tokens[at : at + takes]):
            yield "?", ()
            return
        yield command, tuple(map(float, tokens[at : at + takes]))
        at += takes
        if takes == 0 and at < len(tokens) and not tokens[at].isalpha():
            yield "?", ()
            return
        command = "L" if command == "M" else command


def _circle(steps: list[Step]) -> str | None:
    """A round mark about its own middle, which matplotlib draws with eight curves, as two arcs."""
    curves = [numbers for command, numbers in steps if command == "C"]
    if len(curves) != _CURVES_OF_A_CIRCLE or [command for command, _ in steps] != ["M", *"C" * _CURVES_OF_A_CIRCLE, "Z"]:
        return None
    across, radius = steps[0][1]
    if across or any(abs(x * x + y * y - radius * radius) > 0.1 * radius * radius for *_, x, y in curves):
        return None
    r, twice = _number(radius), _number(2 * radius)
    return f"M-{r} 0a{r} {r} 0 1 0 {twice} 0a{r} {r} 0 1 0-{twice} 0z"


def _joined(steps: list[Step], places: int) -> str:
    made: list[str] = []
    x = y = first_x = first_y = 0.0
    wide = tall = False
    for command, numbers in steps:
        if command == "Z":
            made.append("z")
            x, y = first_x, first_y
            continue
        ends = {"H": (numbers[0], y), "V": (x, numbers[-1])}.get(command) or (numbers[-2], numbers[-1])
        if command == "M":
            made.append(_written("M", numbers))
            first_x, first_y = ends
        else:
            wide, tall = wide or ends[0] != x, tall or ends[1] != y
            made.append(_drawn(command, numbers, (x, y), ends, places))
        x, y = ends
    text = "".join(made)
    return "" if text.endswith("z") and not (wide and tall) else text


def _drawn(command: str, numbers: tuple[float, ...], start: tuple[float, float], ends: tuple[float, float], places: int) -> str:
    """From where it starts, or by where it ends, whichever is shorter."""
    if command in "LHV":
        if ends == start:
            return ""
        if ends[1] == start[1]:
            command, numbers = "H", (ends[0],)
        elif ends[0] == start[0]:
            command, numbers = "V", (ends[1],)
    from_start = tuple(round(number - _origin(command, place, start), places) for place, number in enumerate(numbers))
    return min((_written(command, numbers), _written(command.lower(), from_start)), key=len)


def _origin(command: str, place: int, start: tuple[float, float]) -> float:
    return start[1] if command == "V" or (command != "H" and place % 2) else start[0]


def _written(command: str, numbers: tuple[float, ...]) -> str:
    return command + " ".join(map(_number, numbers)).replace(" -", "-")


def _number(number: float) -> str:
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    text = re.sub(r"^(-?)0\.", r"\1.", text)
    return "0" if text in ("-0", "", "-") else text
