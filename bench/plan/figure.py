"""A figure of a plan: for each way to train a bar, stacked by cause, and a line where the GPU's memory ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.lang import said
from bench.plan.fits import Choice
from bench.plan.moments import Target
from bench.plan.predict import predict_step
from bench.plan.spec import ModelSpec
from bench.plan.terms import CAUSES

GIB = 2**30
LEAST_LABEL = 0.03
"""Of a bar: a cause that is below it in all of them gets no place in the legend."""


def draw(path: Path, model: ModelSpec, ways: Sequence[Choice], memory_bytes: int, target: Target, title: str) -> None:
    """Writes the figure in the format of the path's suffix; raises ValueError for a suffix that matplotlib does not know."""
    from matplotlib import rc_context

    from bench.lang.fonts import families

    with rc_context({"font.family": families()}):
        _draw(path, model, ways, memory_bytes, target, title)


def _draw(path: Path, model: ModelSpec, ways: Sequence[Choice], memory_bytes: int, target: Target, title: str) -> None:
    from matplotlib.figure import Figure

    names = [said("as asked for") if index == 0 else ", ".join(way.changes) for index, way in enumerate(ways)]
    parts = [predict_step(model, way.train, target).peak.by_category() for way in ways]
    figure = Figure(figsize=(11, 1.2 + 0.62 * len(ways)), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(ways)
    for cause in CAUSES:
        sizes = [part.get(cause, 0) / GIB for part in parts]
        if not any(sizes):
            continue
        seen = any(part.get(cause, 0) >= LEAST_LABEL * sum(part.values()) for part in parts)
        label = said(cause.replace("_", " ")) if seen else None
        axes.barh(range(len(ways)), sizes, left=left, label=label, height=0.62)
        left = [before + size for before, size in zip(left, sizes, strict=True)]
    axes.axvline(
        memory_bytes / GIB, color="black", linestyle="--", linewidth=1, label=said(f"memory: {memory_bytes / GIB:.1f} GiB")
    )
    axes.set_yticks(range(len(ways)), [_wrapped(name) for name in names], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(said("predicted peak of allocated memory, GiB"))
    axes.set_title(said(title), fontsize=10)
    axes.legend(fontsize=7)
    figure.savefig(path)


def _wrapped(name: str, width: int = 70) -> str:
    lines = [""]
    for word in name.split(", "):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{word}"
    return "\n".join(lines)
