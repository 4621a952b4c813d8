"""What more ranks come to: tokens a second that each is left with, how much of a step waits for the network, and what is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.metrics import COLLECTIVES, METRICS
from bench.records import Scalar, Status
from bench.report.answers.against import Against, judge, pair_of
from bench.report.drawing.figures import TITLES, case_word
from bench.report.numbers import units
from bench.report.numbers.layout import Section
from bench.report.numbers.sharded import EXPOSED, SENT, WORLD_SIZE, alike, places, rank_word, ranks_words, stage
from bench.report.numbers.summary import TIME, CaseSummary, withheld_words
from bench.report.views.tables import Cell, Head, Table

MOST_LINES = 64
MOST_SAID = 4
LOOKED_FOR = ("seq_len", "batch")
"""Axes of which it is asked how far one comes."""
Place = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    case: CaseSummary
    at: str
    """What varies beside subject and number of ranks."""
    base: CaseSummary | None
    """The same on the fewest ranks; None where that is this very case, or was not timed."""
    against: Against | None = None
    """Its time beside that of the base."""

    @property
    def each(self) -> float | None:
        """Tokens a second of one rank."""
        tokens = self.case.rates.tokens
        return tokens.per_s / self.case.case.world_size if tokens is not None and self.case.usable else None

    @property
    def is_apart(self) -> bool:
        """Whether its base is of another run, so that what the machine did in between is in the ratio."""
        return self.base is not None and self.base.run_id != self.case.run_id

    @property
    def efficiency(self) -> float | None:
        """Each rank has a batch of the same size, so this is what is left of one's speed."""
        ratio = self.against.ratio if self.against else None
        return 1 / ratio if ratio else None


def scaling_table(section: Section, row_ids: Mapping[tuple[str, str], str]) -> Table | None:
    """Subject by subject, from the fewest ranks to the most; None where no case ran on several."""
    if all(case.case.world_size == 1 for case in section.cases):
        return None
    lines = _judged(_scaled(_lines(section)))
    unit = rank_word(section.cases[0])
    fewest = min(line.case.case.world_size for line in lines)
    best = _fastest(lines, fewest)
    has_at, has_base = any(line.at for line in lines), any(line.base for line in lines)
    heads = (
        Head("subject"), *((Head("at"),) if has_at else ()), Head(f"{unit}s"),
        Head(f"tokens/s per {unit}"),
        *((Head("efficiency", "tokens/s of one beside those on the fewest: each has a batch of the same size"),) if has_base else ()),
        Head(f"of the fastest on {fewest}"),
        Head("communication not hidden", METRICS[EXPOSED].description), Head("sent in a step", METRICS[SENT].description),
        Head(TITLES["peak_bytes"], METRICS[section.memory].description),
    )  # fmt: skip
    made = tuple(
        (
            Cell(line.case.label, link=row_ids.get((line.case.case.key, line.case.arm))),
            *((Cell(line.at),) if has_at else ()),
            Cell(str(line.case.case.world_size)),
            _each(line),
            *((_efficiency(line),) if has_base else ()),
            _beside(line, best),
            _waits(line.case),
            _sent(line.case),
            _peak(line.case, section.memory),
        )
        for line in lines[:MOST_LINES]
    )
    more = (f"The first {MOST_LINES} of {len(lines)} lines.",) if len(lines) > MOST_LINES else ()
    caption = (
        "Each has a batch of the same size, so that twice as many train twice the tokens in a step. Numbers are of the worst rank; "
        "efficiency has its 99 % interval, or the range over trials where these are too few. Bars begin at zero."
    )
    withheld = (f"{text}." for text in withheld_words(line.case for line in lines))
    words = (*_words(lines, best), *_not_firm(lines), *withheld, *_reached(section))
    return Table(f"What more {unit}s come to", caption, heads, made, words=(*words, *more), kind="scaling")


def _lines(section: Section) -> list[_Line]:
    """In the order of what else varies, of subjects and of ranks."""
    groups: dict[Place, list[CaseSummary]] = {}
    for case in section.in_order():
        groups.setdefault((alike(case, (WORLD_SIZE,)), stage(case)), []).append(case)
    order = {label: place for place, label in enumerate(section.labels)}
    found = []
    for own in groups.values():
        ordered = sorted(own, key=lambda case: case.case.world_size)
        base = next((case for case in ordered if TIME in case.values), None)
        found += [_Line(case, places(section, case, (WORLD_SIZE,)), None if case is base else base) for case in ordered]
    first = {at: place for place, at in enumerate(dict.fromkeys(line.at for line in found))}
    return sorted(found, key=lambda line: (first[line.at], order.get(line.case.label, len(order)), line.case.case.world_size))


def _scaled(lines: list[_Line]) -> list[_Line]:
    """Those of places where several numbers of ranks were measured; all where there is no such place."""
    ranks: dict[str, set[int]] = {}
    for line in lines:
        ranks.setdefault(line.at, set()).add(line.case.case.world_size)
    return [line for line in lines if len(ranks[line.at]) > 1] or lines


def _judged(lines: Sequence[_Line]) -> list[_Line]:
    """Each beside its base, by the rules that all times are judged by."""
    found = judge([pair_of(line.case, line.base, TIME, other=False) for line in lines])
    return [replace(line, against=verdict if line.base else None) for line, verdict in zip(lines, found, strict=True)]


def _fastest(lines: Sequence[_Line], ranks: int) -> dict[str, _Line]:
    """On so many ranks, by what else varies; not where a time is withheld, since that one may have been faster."""
    found: dict[str, _Line] = {}
    for line in lines:
        if line.case.case.world_size == ranks and line.each and (line.at not in found or line.each > (found[line.at].each or 0.0)):
            found[line.at] = line
    withheld = {line.at for line in lines if line.case.case.world_size == ranks and line.case.usable and line.case.time_withheld}
    return {at: line for at, line in found.items() if at not in withheld}


# --- cells -----------------------------------------------------------------------------------------------------------------------


NOTHING = Cell("–", tint="none")


def _each(line: _Line) -> Cell:
    if line.each is not None:
        return Cell(units.scaled(line.each, units.COUNT), f"n {line.case.values[TIME].n}")
    return Cell("no time" if line.case.usable else case_word(line.case), tint="word")


def _efficiency(line: _Line) -> Cell:
    against, value = line.against, line.efficiency
    if against is None or value is None:
        return NOTHING
    if against.low and against.high and not line.is_apart:
        return Cell(units.in_unit(value, "ratio"), units.range_in_unit(1 / against.high, 1 / against.low, "ratio"))
    trials = line.base.values[TIME].ratio_to(line.case.values[TIME]) if line.base else None
    if trials is None or trials.n < 2:
        return Cell(units.in_unit(value, "ratio"), f"n {trials.n}" if trials else "")
    return Cell(units.in_unit(value, "ratio"), f"{units.range_in_unit(trials.low, trials.high, 'ratio')} over trials")


def _beside(line: _Line, best: Mapping[str, _Line]) -> Cell:
    top = best.get(line.at)
    if line.each is None or top is None or not top.each:
        return NOTHING
    return Cell(units.in_unit(line.each / top.each, "ratio"), "the fastest" if line is top else "")


def _exposed(case: CaseSummary) -> float | None:
    value = case.values.get(EXPOSED) if case.usable and not case.time_withheld else None
    return None if value is None else value.median


def _waiting(case: CaseSummary) -> float | None:
    """One rank waits for nobody."""
    return _exposed(case) if case.case.world_size > 1 else None


def _waits(case: CaseSummary) -> Cell:
    value = _waiting(case)
    return NOTHING if value is None else Cell(units.in_unit(value, "ratio"), share=min(value, 1.0))


def _sent(case: CaseSummary) -> Cell:
    """With what is put into each kind of collective."""
    value = case.values.get(SENT) if case.usable else None
    if value is None or case.case.world_size == 1:
        return NOTHING
    kinds = {kind: case.values[f"{kind}_bytes"].median for kind in COLLECTIVES if f"{kind}_bytes" in case.values}
    note = ", ".join(f"{kind.replace('_', ' ')} {units.size(size)}" for kind, size in kinds.items() if size > 0)
    return Cell(units.size(value.median), note)


def _peak(case: CaseSummary, metric: str) -> Cell:
    value = case.values.get(metric) if case.usable else None
    return NOTHING if value is None else Cell(units.size(value.median))


# --- sentences -------------------------------------------------------------------------------------------------------------------


def _words(lines: Sequence[_Line], best: Mapping[str, _Line]) -> list[str]:
    """Who trains the most tokens on the most ranks, what that is of the fastest on the fewest, and who waits longest for the network."""
    most = max(line.case.case.world_size for line in lines)
    told = dict(list(_fastest(lines, most).items())[:MOST_SAID])
    words = []
    for at, line in told.items():
        top, each = best.get(at), line.each or 0.0
        where = f"{at}, on {ranks_words(line.case)}" if at else f"On {ranks_words(line.case)}"
        of = ""
        if top is not None and top is not line and top.each:
            of = f", {units.in_unit(each / top.each, 'ratio')} of those of {top.case.label} on {ranks_words(top.case)}"
        words.append(f"{where} {line.case.label} trains the most: {units.scaled(each, units.COUNT)} tokens/s on each{of}.")
    words += _not_settled(lines, told)
    waiting = [(share, line) for line in lines if line.case.case.world_size == most and (share := _exposed(line.case)) is not None]
    if len(waiting) > 1:
        least, longest = (choose(waiting, key=lambda entry: entry[0]) for choose in (min, max))
        first, last = (f"{units.in_unit(share, 'ratio')} of a step ({_named(line)})" for share, line in (least, longest))
        words.append(f"On {ranks_words(least[1].case)} communication that nothing hides takes from {first} to {last}.")
    return words


def _not_settled(lines: Sequence[_Line], told: Mapping[str, _Line]) -> list[str]:
    """Of those who train the most, by what else varies: where it is told by one trial, and where the next one's range touches theirs."""
    by_one, near = [], []
    for at, line in told.items():
        ranks, own = line.case.case.world_size, line.case.values[TIME]
        rivals = [one for one in lines if one.at == at and one.case.case.world_size == ranks and one.each and one is not line]
        rivals.sort(key=lambda one: -(one.each or 0.0))
        close = [one.case.label for one in rivals if one.case.values[TIME].overlaps(own)]
        if 1 in (own.n, *(one.case.values[TIME].n for one in rivals[:1])):
            by_one.append(at)
        elif close:
            where = f"At {at} ranges" if at else "Ranges"
            near.append(
                f"{where} over trials of {line.case.label} and {', '.join(close)} overlap, so who trains the most is not firm."
            )
    if not by_one:
        return near
    where = f"At {', '.join(by_one)} who" if len(by_one) < len(told) else "Who"
    return [f"{where} trains the most is told by one trial, so it is not firm.", *near]


def _named(line: _Line) -> str:
    return f"{line.case.label} at {line.at}" if line.at else line.case.label


def _not_firm(lines: Sequence[_Line]) -> list[str]:
    """What speaks against speeds: where shares of communication are from, runs measured apart, and other processes at work."""
    words = []
    if any(_waiting(line.case) is not None for line in lines):
        words.append(
            "Communication that is not hidden is seen in one profiled call, waiting for other ranks included: timed steps may lose less."
        )
    if any(line.is_apart and line.efficiency for line in lines):
        words.append("Numbers of ranks were measured by runs apart: what the machine did in between is in the efficiency.")
    crowded = [line for line in lines if line.each and any(result.conditions.get("busy_processes") for result in line.case.counted)]
    if crowded:
        words.append(
            f"Other processes were at work beside trials of {len(crowded)} of {len(lines)} lines: their speeds are not firm."
        )
    return words


def _reached(section: Section) -> list[str]:
    """Of each subject the largest size that fits on each number of ranks, where it is looked for and one of them did not fit."""
    words: dict[str, None] = {}
    for axis in LOOKED_FOR:
        groups: dict[Place, list[CaseSummary]] = {}
        for case in section.in_order():
            if type(case.axis(axis)) is int:
                groups.setdefault((alike(case, (axis, WORLD_SIZE)), stage(case)), []).append(case)
        for cases in groups.values():
            several = len({case.axis(axis) for case in cases}) > 1
            if several and any(case.status is Status.OOM for case in cases):
                at = places(section, cases[0], (axis, WORLD_SIZE))
                where = f"{cases[0].label} at {at}" if at else cases[0].label
                words |= dict.fromkeys(f"{where}: {told}." for told in _farthest(cases, axis))
    return list(words)


def _farthest(cases: Sequence[CaseSummary], axis: str) -> list[str]:
    """`the largest seq len that fits is 32768 on 1 GPU, at least 131072 on 2 GPUs`; apart from it the numbers of ranks where none does."""
    name = axis.replace("_", " ")
    fitting, without = [], []
    for ranks in sorted({case.case.world_size for case in cases}):
        own = [case for case in cases if case.case.world_size == ranks]
        fits = [case for case in own if case.usable]
        beyond = [case for case in own if case.status is Status.OOM]
        if fits:
            largest = max(fits, key=lambda case: _int(case.axis(axis)))
            fitting.append(f"{'' if beyond else 'at least '}{largest.axis(axis)} on {ranks_words(largest)}")
        elif beyond:
            least = min(beyond, key=lambda case: _int(case.axis(axis)))
            without.append(f"not even {name} {least.axis(axis)} fits on {ranks_words(least)}")
    return [f"the largest {name} that fits is {', '.join(fitting)}", *without] if fitting else without


def _int(value: Scalar) -> int:
    return value if isinstance(value, int) else 0
