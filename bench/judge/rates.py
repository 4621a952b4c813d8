"""Turns a time and a workload's formulas into rates, and rates into shares of what the machine reaches and of what it is sold as.

A rate divides work by time: the work that the workload's formula counts, whatever the implementation really does. Where several ranks
work it is that of all of them: each has a problem of the case's size. A share divides a rate by a ceiling, and a ceiling always says where
it comes from. There are two. The *measured* one is what this very run reached with
nothing but PyTorch (its canaries: a large matrix product per dtype, a large copy); it knows the clocks and the power cap of the day.
The *data sheet's* is the vendor's, for GPUs that the table knows and that are not cut into parts (MIG).

When there is no share, rather than a wrong one:

* on a CPU, whose runs have no canaries, and where several ranks work on one case;
* for a dtype whose matrix product this run did not measure: fp32 on the matrix units (tf32) is another limit than fp32;
* of a measured ceiling, where another physical GPU measured it, of the same model or not: a run that was resumed may hold two;
* of bandwidth, where the bytes that must move are fewer than four times the L2: the cache may have served them;
* of FLOP/s, for what multiplies in another format than the case's dtype, unless the ceiling is that format's own; nor where the format is
  not known;
* of bandwidth, for what stores something in another format: bytes are counted in the case's dtype;
* of a canary against itself.

A share of the measured ceiling above one is possible (a matrix product that draws more power runs at a lower clock), but must be
looked at from 1 % above on. Above the data sheet it is impossible, and the runner has made the row `invalid` before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bench.declare import OWN_DTYPE
from bench.machine.datasheet import DataSheet, data_sheet
from bench.records import Case, Cost, Environment, Pass, Scalar
from bench.run.canaries import COPY_ELEMENTS, MATMUL_SIZE
from bench.run.limits import L2_MULTIPLE
from bench.stats import median

FLOPS, BYTES, TOKENS = "flops", "bytes", "tokens"
ABOVE = 1.01
"""The share of a measured ceiling from which on a rate is above it."""
OTHER_FORMAT = "no share: it computes something else on purpose, which may be in another format than the {dtype} of the ceilings"
NO_CEILING = "no share: it multiplies in {format}, of which neither this run nor the data sheet has a ceiling"
_PLAIN = {"matmul": "torch_matmul", "copy": "torch_copy"}
"""What a ceiling is made with: nothing but PyTorch."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A case with what a rate needs: the median time of each trial that was `ok`, the work of one call, and the machine."""

    case: Case
    cost: Cost
    seconds: tuple[float, ...]
    environment: Environment
    gpus: frozenset[str] = frozenset()
    """UUIDs of the physical GPUs that its trials ran on; empty on a CPU, and where the rows do not know."""
    in_its_dtype: bool = True
    """Whether all that it holds is of the case's dtype, in which bytes are counted."""
    multiplies_in: str | None = OWN_DTYPE
    """The format of its products, one of `declare.PRODUCTS`; None where that is not known."""

    @property
    def median_s(self) -> float:
        return median(self.seconds)

    @property
    def format(self) -> str | None:
        """That of its products by its own name: `bf16`, `fp8`."""
        return self.case.dtype if self.multiplies_in == OWN_DTYPE else self.multiplies_in

    @property
    def l2_bytes(self) -> int | None:
        """Size of the L2 cache, or None where the worker could not tell."""
        found = self.environment.soft.get("l2_bytes")
        return found if isinstance(found, int) else None

    @property
    def sheet(self) -> DataSheet | None:
        """The data sheet of the whole GPU that this ran on; None on a CPU, on a part of a GPU, and for an unknown model."""
        hard: Mapping[str, Scalar] = self.environment.hard
        model = hard.get("gpu_model")
        return data_sheet(model) if self.case.device == "cuda" and isinstance(model, str) and not hard.get("mig") else None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that is thought possible, in FLOP/s or bytes per second, and who says so."""

    per_s: float
    name: str
    """Short: `matmul bf16 of this run`, `H200 SXM data sheet`, `H200 SXM data sheet for fp8`."""
    source: str
    """In full: sizes and trials, or the document."""
    format: str | None = None
    """What it is of, where that is not the case's dtype: `fp8`."""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What one run measured of its machine."""

    flops: Mapping[str, Ceiling] = field(default_factory=dict)
    """By dtype."""
    bytes: Ceiling | None = None


ByGpu = Mapping[frozenset[str], Ceilings]
"""What one run measured of each physical GPU, by the UUID of its canaries (empty where they do not know theirs)."""


@dataclass(frozen=True, slots=True)
class Share:
    """A rate over a ceiling."""

    value: float
    ceiling: Ceiling


@dataclass(frozen=True, slots=True)
class Rate:
    """Work per second, with its shares of the limits that are known for it."""

    kind: str
    """`flops`, `bytes` or `tokens`."""
    per_s: float
    measured: Share | None = None
    data_sheet: Share | None = None
    withheld: str | None = None
    """Why there is no share where a reader would look for one."""

    @property
    def share(self) -> Share | None:
        """Of the measured ceiling, else of the data sheet."""
        return self.measured or self.data_sheet

    @property
    def above_measured(self) -> bool:
        return self.measured is not None and self.measured.value >= ABOVE


@dataclass(frozen=True, slots=True)
class Rates:
    """What one case does per second, by the formulas of its workload."""

    flops: Rate | None = None
    bytes: Rate | None = None
    tokens: Rate | None = None
    intensity: float | None = None
    """FLOP per byte that must move: right of the ridge of a roofline the matrix units are the limit, left of it the memory."""

    @property
    def leading(self) -> Rate | None:
        """The one that is nearer to its limit; where no limit is known FLOP/s, else bytes, else tokens."""
        known = [rate for rate in (self.flops, self.bytes) if rate is not None and rate.share is not None]
        nearest = max(known, key=lambda rate: rate.share.value if rate.share else 0.0, default=None)
        return nearest or self.flops or self.bytes or self.tokens

    @property
    def above_measured(self) -> tuple[Rate, ...]:
        """Those above the ceiling that this run measured: to be looked at."""
        return tuple(rate for rate in (self.flops, self.bytes) if rate is not None and rate.above_measured)


def _is_ceiling(case: Case) -> bool:
    """Whether `case` has the shape of a canary, be it in its run as one or because the suite asks for it."""
    if case.device != "cuda" or case.pass_ is not Pass.FORWARD or (case.cache, case.timer) != ("cold", "events"):
        return False
    if dict(case.subject) != {case.workload: _PLAIN.get(case.workload)}:
        return False
    if case.workload == "matmul":
        return all(case.params.get(side) == MATMUL_SIZE for side in ("m", "n", "k"))
    return case.workload == "copy" and case.params.get("elements") == COPY_ELEMENTS


def ceilings(cases: Iterable[Timed]) -> ByGpu:
    """The measured ceilings among the timed cases of one run, for each GPU; none of a canary whose trials ran on several."""
    by_gpu: dict[frozenset[str], list[Timed]] = {}
    for timed in cases:
        if _is_ceiling(timed.case) and timed.seconds and timed.median_s > 0 and len(timed.gpus) <= 1:
            by_gpu.setdefault(timed.gpus, []).append(timed)
    return {gpus: _ceilings(found) for gpus, found in by_gpu.items()}


def _ceilings(canaries: Iterable[Timed]) -> Ceilings:
    flops: dict[str, Ceiling] = {}
    moved: Ceiling | None = None
    for timed in canaries:
        trials = f"median of {len(timed.seconds)} trial{'s' if len(timed.seconds) > 1 else ''}"
        if timed.cost.flops and (timed.case.dtype not in flops):
            size = f"{MATMUL_SIZE} × {MATMUL_SIZE} × {MATMUL_SIZE}"
            name = f"matmul {timed.case.dtype} of this run"
            flops[timed.case.dtype] = Ceiling(timed.cost.flops / timed.median_s, name, f"{name}, {size}, {trials}")
        elif timed.cost.bytes and moved is None and timed.case.workload == "copy":
            size = f"{timed.cost.bytes / 1e9:.3g} GB read and written"
            moved = Ceiling(timed.cost.bytes / timed.median_s, "copy of this run", f"copy of this run, {size}, {trials}")
    return Ceilings(flops, moved)


def rates(timed: Timed, by_gpu: ByGpu) -> Rates:
    """Rates of one case by its median time. `by_gpu` are the ceilings of the same run; only those of the case's own GPU count."""
    measured = by_gpu.get(timed.gpus, Ceilings()) if len(timed.gpus) <= 1 else Ceilings()
    cost, seconds = timed.cost, timed.median_s
    if seconds <= 0:
        return Rates()
    ranks = timed.case.world_size
    alone = ranks == 1
    own_ceiling = _is_ceiling(timed.case)
    sheet = timed.sheet if alone else None
    flops = moved = None
    if cost.flops:
        flops = _flops(timed, ranks * cost.flops / seconds, measured if alone and not own_ceiling else Ceilings(), sheet)
    if cost.bytes:
        per_s = ranks * cost.bytes / seconds
        withheld = _cached(timed, cost.bytes) if measured.bytes or sheet else None
        if withheld:
            moved = Rate(BYTES, per_s, withheld=withheld)
        else:
            top = None if own_ceiling or not alone else measured.bytes
            promised = _promise(sheet, sheet.bandwidth if sheet else None)
            withheld = _other_format(timed) if (top or promised) and not timed.in_its_dtype else None
            moved = Rate(BYTES, per_s, withheld=withheld) if withheld else _rate(BYTES, per_s, top, promised)
    return Rates(
        flops,
        moved,
        Rate(TOKENS, ranks * cost.tokens / seconds) if cost.tokens else None,
        cost.flops / cost.bytes if cost.flops and cost.bytes else None,
    )


def _flops(timed: Timed, per_s: float, measured: Ceilings, sheet: DataSheet | None) -> Rate:
    """With shares of the limits of the format that it multiplies in."""
    dtype, format_ = timed.case.dtype, timed.format
    if format_ is not None:
        top = measured.flops.get(format_)
        promised = _promise(sheet, sheet.flops.get(format_) if sheet else None, None if format_ == dtype else format_)
        if top or promised or format_ == dtype:
            return _rate(FLOPS, per_s, top, promised)
    if not (dtype in measured.flops or (sheet and dtype in sheet.flops)):
        return Rate(FLOPS, per_s)
    return Rate(FLOPS, per_s, withheld=NO_CEILING.format(format=format_) if format_ else _other_format(timed))


def _other_format(timed: Timed) -> str:
    return OTHER_FORMAT.format(dtype=timed.case.dtype)


def _rate(kind: str, per_s: float, top: Ceiling | None, promised: Ceiling | None) -> Rate:
    return Rate(kind, per_s, _share(per_s, top), _share(per_s, promised))


def _share(per_s: float, ceiling: Ceiling | None) -> Share | None:
    return Share(per_s / ceiling.per_s, ceiling) if ceiling else None


def _promise(sheet: DataSheet | None, per_s: float | None, format_: str | None = None) -> Ceiling | None:
    of = f" for {format_}" if format_ else ""
    return Ceiling(per_s, f"{sheet.model} data sheet{of}", f"{sheet.source}{of}", format_) if sheet and per_s else None


def _cached(timed: Timed, moved: int) -> str | None:
    """Why bandwidth says nothing about memory here, or None."""
    if timed.l2_bytes is None:
        return "no share of bandwidth: the size of the L2 is not known"
    if moved < L2_MULTIPLE * timed.l2_bytes:
        size = f"{moved / 2**20:.3g} MiB move, {moved / timed.l2_bytes:.2g} times the L2 of {timed.l2_bytes / 2**20:.3g} MiB"
        return f"no share of bandwidth: {size}, and below {L2_MULTIPLE} times the cache may serve them"
    return None
