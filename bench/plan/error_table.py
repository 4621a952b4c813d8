"""The error table of the memory model as data and as Markdown, and its place in a page that is kept by hand.

Three tables: how near the parts of the grid are, which cause is how far off, and case by case with the largest error first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bench.plan.spec import DEFAULTS, ModelSpec, PlanError, TrainSpec, ZeroOptions
from bench.plan.validate import (
    CAUSE_BYTES,
    CAUSE_ERROR,
    WHOLE_ERROR_OF_SEVERAL,
    Comparison,
    by_cause,
    device_constants,
    summaries,
)

BEGIN, END = "<!-- plan validation: begin -->", "<!-- plan validation: end -->"
"""Between these lines `bench plan --validate --write` puts the table into a page that has them."""
GIB = 2**30
PLACES = ("model", "seq_len", "batch", "accumulation", "packing", "dropout", "world_size")
AS_USUAL: Mapping[str, Any] = {"batch": 1, "accumulation": 1, "packing": "full", "dropout": 0.0, "world_size": 1}
"""What is not told of a case."""
TOLD_PARAMS = frozenset(
    {"model", "zero_options", *(field.name for spec in (ModelSpec, TrainSpec) for field in fields(spec))}
    | {f"zero_{field.name}" for field in fields(ZeroOptions)}
)
"""What a prediction depends on."""
CAUSES_TOO = (
    f"Causes too: of the cases within it, those of which each cause is off by no more than {CAUSE_ERROR * 100:.0f} % or "
    f"{CAUSE_BYTES // 2**20} MiB as well. Where GPUs share a step, the whole may be off by {WHOLE_ERROR_OF_SEVERAL * 100:.0f} %, and "
    "causes are not judged."
)
IN_A_PAGE = 10
"""Cases in a page that holds more than this table."""


def where(params: Mapping[str, Any]) -> str:
    """`llama-3.2-1b, seq_len 1024, batch 4`."""
    told = [(name, params[name]) for name in PLACES if params.get(name) not in (None, AS_USUAL.get(name))]
    return ", ".join(str(value) if name == "model" else f"{name} {value}" for name, value in told)


def how(subject: Mapping[str, str]) -> str:
    """What differs from a plain run: `sdpa_flash, optimizer adamw_fused, layers liger`."""
    changed = {slot: name for slot, name in subject.items() if DEFAULTS.get(slot, "none") != name}
    fused = ("rms_norm", "rope", "swiglu", "linear_cross_entropy")
    if all(changed.get(slot) == "liger" for slot in fused):
        changed = {slot: name for slot, name in changed.items() if slot not in fused} | {"layers": "liger"}
    words = [name if slot in ("attention", "precision", "adaptation") else f"{slot} {name}" for slot, name in changed.items()]
    return ", ".join(words) or "plain"


def as_data(lines: Sequence[Comparison], measured_on: Mapping[str, Any]) -> dict[str, Any]:
    """All of it for programs: what it was measured on, summaries, and each case with both breakdowns in bytes."""
    return {
        "measured_on": dict(measured_on),
        "parts": [{**asdict(entry), "passed": _passed(lines)[entry.part]} for entry in summaries(lines)],
        "causes": [asdict(entry) for entry in by_cause(lines)],
        "device_constants": [asdict(entry) for entry in device_constants(lines)],
        "cases": [_case(line) for line in lines],
    }


def _case(line: Comparison) -> dict[str, Any]:
    return {
        "part": line.measured.part,
        "params": {name: value for name, value in line.measured.params.items() if name in TOLD_PARAMS},
        "subject": dict(line.measured.subject),
        "measured_bytes": line.measured.peak_bytes,
        "measured_causes": dict(line.measured.causes),
        "foretold_bytes": line.measured.foretold_bytes,
        "predicted_bytes": None if line.prediction is None else line.prediction.peak_bytes,
        "predicted_phase": None if line.prediction is None else line.prediction.peak.phase,
        "predicted_causes": {} if line.prediction is None else line.prediction.peak.by_category(),
        "error": line.error,
        "passed": line.passed,
        "refused": line.refused,
    }


def markdown(lines: Sequence[Comparison], measured_on: Mapping[str, Any], *, most: int | None = None) -> str:
    """The three tables; `most` cases of the last one."""
    told = ", ".join(f"{name} {value}" for name, value in measured_on.items())
    passed = _passed(lines)
    parts = _table(
        ("cases", "measured", "predicted", "within 5 %", "causes too", "median error", "95 % of errors below", "largest"),
        [
            (entry.part, str(entry.cases), str(entry.predicted), str(entry.within), str(passed[entry.part]), _percent(entry.median),
             _percent(entry.percentile_95), _percent(entry.largest))
            for entry in summaries(lines)
        ],
    )  # fmt: skip
    causes = _table(
        ("cause", "largest measured, GiB", "median distance, of the whole peak", "largest distance, GiB"),
        [
            (entry.cause.replace("_", " "), f"{entry.measured_bytes / GIB:.2f}", _percent(entry.median),
             f"{entry.largest_bytes / GIB:+.3f}")
            for entry in by_cause(lines)
        ],
    )  # fmt: skip
    shown = list(lines if most is None else lines[:most])
    title = "Case by case, the largest error first" if most is None else f"The {len(shown)} largest errors of {len(lines)}"
    cases = _table(
        ("case", "trained with", "part", "predicted, GiB", "measured, GiB", "error", "causes that are off"),
        [
            (
                where(line.measured.params),
                how(line.measured.subject),
                line.measured.part,
                "no formulas" if line.prediction is None else f"{line.prediction.peak_bytes / GIB:.2f}",
                f"{line.measured.peak_bytes / GIB:.2f}",
                "" if line.error is None else f"{line.error * 100:+.2f} %",
                ", ".join(cause.replace("_", " ") for cause in line.causes_off()),
            )
            for line in shown
        ],
    )
    return f"Measured on: {told}\n\n{parts}\n{CAUSES_TOO}\n\nBy cause:\n\n{causes}\n{title}:\n\n{cases}"


def _passed(lines: Sequence[Comparison]) -> Counter[str]:
    """Part, and `all`, to how many of its cases are predicted as near as is asked for, by cause too."""
    return Counter(part for line in lines if line.passed for part in (line.measured.part, "all"))


def _percent(share: float) -> str:
    return f"{share * 100:.2f} %"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written_into(page: str, table: str) -> str:
    """The page with the table between its marks. Raises PlanError where it lacks one of them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PlanError(f"the page has no lines {BEGIN} and {END} to put the table between")
    return f"{before}{BEGIN}\n{table}{END}{after}"


def write(path: Path, lines: Sequence[Comparison], measured_on: Mapping[str, Any]) -> None:
    """Into a `.json` file the data; into a Markdown page that is there the table between its marks; else a page of its own."""
    import json

    try:
        if path.suffix == ".json":
            data = as_data(lines, measured_on)
            cases = ",\n".join(json.dumps(case) for case in data.pop("cases"))
            text = f'{json.dumps(data)[:-1]}, "cases": [\n{cases}\n]}}\n'
        elif path.is_file() and BEGIN in (page := path.read_text(encoding="utf-8")):
            text = written_into(page, markdown(lines, measured_on, most=IN_A_PAGE))
        else:
            text = f"# Predicted and measured peaks of a training step\n\n{markdown(lines, measured_on)}"
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise PlanError(f"{path} cannot be written: {error}") from error
