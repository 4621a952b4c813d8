"""How fast ranks reach one another: the rates of collectives by NCCL's definitions, to be held against the link between two of them."""

from __future__ import annotations

from bench.report.numbers import units
from bench.report.numbers.layout import Section
from bench.report.numbers.sharded import rank_word
from bench.report.numbers.summary import TIME, CaseSummary
from bench.report.views.rows import row_id
from bench.report.views.tables import Cell, Head, Table

WORKLOAD = "collective"
_SIZE = "bytes"
_UNIT = "B/s"
_TIMES_SENT = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
_CAPTION = (
    "By the definitions of nccl-tests: the whole's bytes over the time, and times 2 (N - 1) / N for a sum, (N - 1) / N for gathering and "
    "scattering, what goes over the link of each of N ranks in each direction. Bars begin at zero."
)


def links_table(section: Section) -> Table | None:
    """By operation and size, in the section's order; None of another workload, and where no case has a time on several ranks."""
    cases = [case for case in section.in_order() if TIME in case.values and _bus(case) is not None]
    if section.workload != WORKLOAD or not cases:
        return None
    most = max(_bus(case) or 0.0 for case in cases)
    heads = (
        Head("operation"), Head("subject"), Head(f"{rank_word(cases[0])}s"), Head("bytes of the whole"), Head("time per call"),
        Head("the whole over the time"), Head("bus bandwidth"),
    )  # fmt: skip
    return Table("How fast ranks reach one another", _CAPTION, heads, tuple(_line(case, most) for case in cases), kind="links")


def _line(case: CaseSummary, most: float) -> tuple[Cell, ...]:
    time, size, bus = case.values[TIME], case.axis(_SIZE), _bus(case) or 0.0
    whole = float(size) if isinstance(size, int) else 0.0
    return (
        Cell(str(case.axis("operation")), link=row_id(case, case.status)),
        Cell(case.label),
        Cell(str(case.case.world_size)),
        Cell(units.size(whole)),
        Cell(units.in_unit(time.median, "s"), f"n {time.n}"),
        Cell(units.rate(whole / time.median, _UNIT)),
        Cell(units.rate(bus, _UNIT), share=bus / most if most else None),
    )


def _bus(case: CaseSummary) -> float | None:
    """Bytes a second over the link of each rank; None on one rank, of an unknown operation and without a time."""
    ranks, size = case.case.world_size, case.axis(_SIZE)
    sent = _TIMES_SENT.get(str(case.axis("operation")))
    time = case.values.get(TIME)
    if ranks < 2 or sent is None or time is None or time.median <= 0 or not isinstance(size, int):
        return None
    return size / time.median * sent * (ranks - 1) / ranks
