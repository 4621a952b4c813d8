"""The two tables that a reader of the README wants, as Markdown: what to switch on by length, and what fits by memory.

A cell is measured, with its unit, its number of trials and the run that it is from, or it is predicted and marked so. Text is in the
language that is spoken; what stands between backticks has none. The same rows give the same bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from bench.errors import SelectionError
from bench.lang import said
from bench.plan.fits import Choice
from bench.records import Run, Status
from bench.report.answers.by_length import Cell, Lengths
from bench.report.answers.by_memory import KINDS, Cards, Fit, switched_on
from bench.report.answers.numerics import other_numerics
from bench.report.answers.trained import Trained
from bench.report.numbers.summary import Spread
from bench.report.numbers.units import COUNT, EN_DASH, digits, ratio, rung, size

BEGIN, END = "<!-- guide: begin -->", "<!-- guide: end -->"
"""Between these lines a page has the tables."""
TOKENS = "tokens/s"
WORTH_TELLING = 1.05
"""Expected times below this many steps with fused kernels and nothing else are not told."""
WAITED = "†"
SHORT_ID = 13
NOT_OF_THE_QUESTION = ("--device", "--budget", "--gpus")
"""Options of a run that only say where and how long."""


class _Sources:
    """The runs that numbers are from, in the order in which they are first named."""

    def __init__(self) -> None:
        self._found: dict[str, Trained] = {}

    def mark(self, found: Trained) -> str:
        self._found.setdefault(found.run.id, found)
        return _raised(list(self._found).index(found.run.id))

    def __bool__(self) -> bool:
        return bool(self._found)

    def lines(self) -> Iterator[str]:
        for place, found in enumerate(self._found.values()):
            run = found.run
            versions = ", ".join(f"{item.name} {item.version}" for item in run.revision if item.version)
            told = said(
                f"run `{run.id[:SHORT_ID]}` of {run.started_at[:10]}, bench {found.result.harness_version or run.harness_version}, "
                f"measuring method {found.result.method_version}"
            )
            on = ", ".join([str(found.result.environment.hard.get("gpu_model")), *([versions] if versions else [])])
            yield f"- {_raised(place)} {told} ({on}): `{asked_command(run)}`"


def _raised(place: int) -> str:
    """`a`, `b` … above the line: letters, since numbers stand in front of them."""
    letters = ""
    while place >= 0:
        place, letter = divmod(place, len(ascii_lowercase))
        letters, place = ascii_lowercase[letter] + letters, place - 1
    return f"<sup>{letters}</sup>"


def guide(lengths: Lengths, cards: Cards, again: str) -> str:
    """Both tables with what explains them, as Markdown. `again`: the command that makes them."""
    sources = _Sources()
    parts = [_by_length(lengths, sources), _by_memory(cards, sources)]
    explained = [f"- {line}" for line in _explained(lengths, cards, again)]
    runs = [f"<details><summary>{said('runs and what measures them again')}</summary>", "", *sources.lines(), "", "</details>"]
    return "\n".join([*parts, *explained, "", *(runs if sources else ()), ""])


def written_into(page: str, block: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with what was made between its marks. Raises SelectionError where it lacks one of them."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise SelectionError(f"the page has no lines {marks[0]} and {marks[1]} to put something between")
    return f"{before}{begin}\n{block}{end}{after}"


def asked_command(run: Run) -> str:
    """What measures the run's cases again, on whichever device and without a limit of time."""
    words = iter(shlex.split(run.command))
    kept = []
    for word in words:
        if word in NOT_OF_THE_QUESTION:
            next(words, None)
        elif word.partition("=")[0] not in NOT_OF_THE_QUESTION:
            kept.append(word)
    return shlex.join(kept)


def _by_length(table: Lengths, sources: _Sources) -> str:
    title = said(f"`{table.model}` on one `{table.gpu}` ({size(table.memory_bytes)}), one sequence a step: what to switch on")
    lines = [f"**{title}**", "", *(f"- {_answer(table, seq_len)}" for seq_len in table.lengths), ""]
    lines += _head([said("trained with"), *(said(f"{seq_len} tokens") for seq_len in table.lengths)])
    for way, cells in table.rows:
        lines.append(_row([said(way.name), *(_cell(cell, sources, best=_is_best(table, cell)) for cell in cells)]))
    return "\n".join([*lines, ""])


def _answer(table: Lengths, seq_len: int) -> str:
    best, expected = table.fastest.get(seq_len), table.expected[seq_len]
    where, beside = f"{seq_len} tokens, all weights learn", _beside(table, seq_len)
    if best is not None and best.trained is not None:
        alone = "measured last" if table.otherwise[seq_len] else "the only one measured"
        rank = "fastest measured" if table.beside[seq_len] > 1 else alone
        near = "; ".join(cell.way.name for cell in table.not_apart[seq_len])
        level = f"; not shown to be slower: {near}" if near else ""
        return said(f"{where}, {rank}: {said(best.way.name)} ({_told(best.trained)}){level}{beside}")
    if expected is None:
        return said(f"{where}: nothing is predicted to fit{beside}")
    first = "first by the plan" + (", in other numerics" if other_numerics({"optimizer": expected.train.optimizer}) else "")
    answer = f"{_switched(switched_on(expected))} ({said(_expected(expected))})"
    return said(f"{where}, no time measured yet, {first}: {answer}{beside}")


def _beside(table: Lengths, seq_len: int) -> str:
    """What computes in other numbers, after what it is not held against."""
    cells = table.in_other_numerics[seq_len]
    told = [f"{said(cell.way.name)} ({_told(cell.trained)})" for cell in cells if cell.trained is not None]
    return "".join(f"; measured in other numerics: {one}" for one in told)


def _is_best(table: Lengths, cell: Cell) -> bool:
    best = table.fastest.get(cell.seq_len)
    return table.beside[cell.seq_len] > 1 and (best is cell or any(cell is near for near in table.not_apart.get(cell.seq_len, ())))


def _cell(cell: Cell, sources: _Sources, *, best: bool) -> str:
    if cell.trained is None:
        if cell.predicted_bytes is None:
            return said("not measured")
        predicted = f"≈ {size(cell.predicted_bytes)}"
        return predicted if cell.fits else said(f"{predicted}: does not fit")
    text = _told(cell.trained)
    return f"{f'**{text}**' if best else text}{sources.mark(cell.trained)}"


def _told(found: Trained) -> str:
    """Its numbers, with the mark of a time in which the device may have waited for the host."""
    return said(_numbers(found)) + (WAITED if found.waited else "")


def _numbers(found: Trained, *, with_time: bool = True) -> str:
    """`8.05 ktokens/s (8.01–8.10), 59.9 GiB, n 3`, or how it ended; a time of few steps is told as one."""
    trials = f"n {found.n}"
    if found.outcome == Status.OOM:
        return f"does not fit: `oom`, {trials}"
    if found.outcome != Status.OK:
        return f"`{found.outcome}`, {trials}"
    peak = [] if found.peak is None else [size(found.peak.median)]
    rate = [] if found.tokens_per_s is None or not with_time else [_rate(found.tokens_per_s)]
    few = [] if found.few_steps is None or not with_time else [f"steps a trial: {found.few_steps}"]
    return ", ".join([*rate, *peak, trials, *few])


def _rate(tokens_per_s: Spread) -> str:
    scale, prefix = rung(tokens_per_s.median, COUNT)
    middle, low, high = (digits(value / scale) for value in (tokens_per_s.median, tokens_per_s.low, tokens_per_s.high))
    return f"{middle} {prefix}{TOKENS}" + (f" ({low}{EN_DASH}{high})" if low != high else "")


def _by_memory(table: Cards, sources: _Sources) -> str:
    title = said(f"{table.seq_len} tokens, one sequence a step: what fits, and is expected to be the fastest of that")
    lines = [f"**{title}**", "", *_head([said("GPU memory"), *(said(kind) for kind in KINDS)])]
    for row in table.rows:
        cards = ", ".join(f"{sold} (`{name}`)" for sold, name in zip(row.sizes, row.gpus, strict=True))
        timed = table.gpu in row.gpus
        lines.append(_row([f"`{row.model}`, {cards}", *(_fit(fit, sources, table.gpu, timed=timed) for fit in row.fits)]))
    return "\n".join([*lines, ""])


def _fit(fit: Fit, sources: _Sources, gpu: str, *, timed: bool) -> str:
    """`timed`: whether the line is of the GPU that measured, too: memory is told on any, a time is that of its own GPU."""
    parts = [said("nothing that is known fits")]
    if fit.choice is not None:
        parts = [_switched(fit.switched), said(_expected(fit.choice))]
    if fit.trained is not None:
        numbers = _told(fit.trained) if timed else said(_numbers(fit.trained, with_time=False))
        parts.append(f"{said(f'measured on `{gpu}`: {numbers}')}{sources.mark(fit.trained)}")
    if fit.otherwise is not None:
        parts += [said(f"in other numerics: {_switched(switched_on(fit.otherwise))}"), said(_expected(fit.otherwise))]
    return "<br>".join(parts)


def _switched(names: Sequence[str]) -> str:
    return " ".join(f"`{name}`" for name in names) or said("fused kernels")


def _expected(choice: Choice) -> str:
    """`≈ 34.7 GiB, 15.2 GiB of the host, 1.36× the time`."""
    parts = [f"≈ {size(choice.peak_bytes)}"]
    parts += [f"{size(choice.host_bytes)} of the host"] if choice.host_bytes else []
    parts += [f"{ratio(choice.cost)} the time"] if choice.cost >= WORTH_TELLING else []
    return ", ".join(parts)


def _explained(lengths: Lengths, cards: Cards, again: str) -> Iterator[str]:
    plan = f"bench plan --model {lengths.model} --seq-len {cards.seq_len} --gpu {lengths.gpu} --attention sdpa_flash"
    yield said(
        "≈: predicted by `bench plan` and not measured, and said to fit where 5 % of the peak and 0.6 GiB for the context are left"
    )
    yield said("n: trials, each a process of its own, of which the median is shown, with random weights and tokens")
    yield said(
        "bold: the fastest of those that train all weights in bf16, states too, and what is within 5 % of it where fewer than three "
        "trials, or ranges that overlap, do not show it to be slower; only what one method measured is compared"
    )
    yield said(
        "other numerics: float8 products, 8-bit states, fp32 beside bf16; what is learned need not be the same, so their times are told "
        "and not held against the others"
    )
    yield from _of_times([cell.trained for _, cells in lengths.rows for cell in cells if cell.trained is not None])
    yield said(
        "fused kernels: FlashAttention of torch, Liger's layers and loss, torch's fused AdamW; in bf16, states too; adapters of rank 16"
    )
    yield said(
        "as transformers comes: 5.x takes SDPA, which runs FlashAttention where nothing is padded, and its Trainer takes the fused AdamW"
    )
    yield said(
        f"the time: of a step beside one with fused kernels and nothing else, by a rule or by steps measured on `{cards.gpu}`; "
        "every way by memory has fused kernels, and what stands there is switched on besides"
    )
    yield said(f"ways that fit, each by its causes: `{plan}`")
    yield said(f"both tables again: `{again}`")


def _of_times(measured: Sequence[Trained]) -> Iterator[str]:
    """What is to be known of the times of all cells together."""
    timed = [found for found in measured if found.tokens_per_s is not None]
    if enough := sorted(found.steps for found in timed if found.steps is not None and found.few_steps is None):
        yield said(
            f"a trial's time: the median of its steps, of which it has {enough[0]} or more; where it has fewer, the cell says so"
        )
    told = [found.settled for found in timed if found.settled is not None]
    if not all(told):
        yield said(f"not yet stable when warm-up ended: {told.count(False)} of {len(told)} times")
    if any(found.waited for found in timed):
        yield said(
            f"{WAITED}: the device was done almost as soon as the host had launched everything; gaps in which it waited may be in this "
            "time, and a quicker host, or more tokens a step, may then be faster"
        )


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), _row(["---"] * len(cells))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
