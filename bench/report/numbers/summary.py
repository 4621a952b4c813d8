"""Gathers the trials of each case into one value with its spread: median over trial medians, range over trials, and n.

A trial's value is the median of its samples, since a trial and not an iteration is the unit of evidence. Nothing here judges.
Times of a case are withheld when any of its trials computed wrong numbers, where its trials ran on different hardware (a merge can bring
that), where others computed on its GPU (bench/judge/shared_gpu.py), and on an interpreter, which says nothing of speed.

A run's canaries are no cases of its question: `summarize` leaves them out, and what they reached is the denominator of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench import stats
from bench.declare import OWN_DTYPE
from bench.judge.rates import ByGpu, Rates, Timed, ceilings, rates
from bench.judge.shared_gpu import COMPILING, ENERGY, Beside, disturbed, on_its_gpu, untimed, why_no_time
from bench.metrics import SHOWS_SPEED
from bench.records import Case, Json, Proof, Result, Run, Scalar, Status
from bench.report.numbers.formats import COUNTED_FOR_ALL, multiplied_in
from bench.run.canaries import is_canary
from bench.suite.arms import Arm, arms_of, label_of

TIME = "time_s"
PEAK = "peak_bytes"
TOTAL = "peak_total_bytes"
SAVED = "saved_bytes"
CYCLES = "cycles"
KERNELS = "kernels_per_call"
TOLERANCE_WORDS = "the tolerance that the implementation declares"
"""How a check says that its limit is a declared tolerance."""
PHASES = ("forward_s", "backward_s", "optimizer_s")
"""The parts of one training step, in the order in which they run."""


SET_ASIDE = "set aside"
"""How a case ended whose rows are all excluded: it has no status, since nothing of it counts."""
EXCLUDED = "excluded: "
"""How the reason begins for which a row was excluded by hand."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One value of a case: the median over its trials with the lowest, the highest, and how many trials there were."""

    median: float
    low: float
    high: float
    n: int

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges over trials touch."""
        return self.low <= other.high and other.low <= self.high

    @property
    def relative_range(self) -> float | None:
        """Range over median, or None with one trial or a median of zero."""
        return (self.high - self.low) / self.median if self.n > 1 and self.median > 0 else None

    def ratio_to(self, other: Spread) -> Spread | None:
        """This over `other`: the medians' ratio, and the widest range that the extremes allow; None where `other` reaches zero."""
        if other.low <= 0:
            return None
        return Spread(self.median / other.median, self.low / other.high, self.high / other.low, min(self.n, other.n))


def withheld_words(cases: Iterable[CaseSummary]) -> tuple[str, ...]:
    """Why cases that ran show no time, each reason with how many of all it is of: a reader who sees none is told without opening rows."""
    there = list(cases)
    found = Counter(case.time_withheld for case in there if case.usable and case.time_withheld)
    return tuple(f"Of {n} of {len(there)} cases {why}; memory is counted, and holds" for why, n in found.items())


def gpu_of(result: Result) -> str | None:
    """The UUID of the physical GPU that a row was measured on; None on a CPU, and for a row that does not know."""
    found = result.conditions.get("gpu_uuid")
    return found if isinstance(found, str) and found else None


def spread(values: Sequence[float]) -> Spread:
    """The spread of trial medians; raises ValueError on none."""
    return Spread(stats.median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True)
class Reach:
    """What the machine reached in one run: its canaries, and the ceilings that other rows are held against."""

    canaries: tuple[CaseSummary, ...] = ()
    ceilings: ByGpu = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """All that one run says of one case (and arm)."""

    case: Case
    arm: str
    run_id: str
    status: Status
    """`incorrect` if any trial was, else `ok` if any trial was, else the most frequent. See `outcome` for what to show."""
    counted: tuple[Result, ...]
    """Rows of the last attempt that nobody excluded, by trial index."""
    set_aside: tuple[tuple[Result, str], ...]
    """Rows that no value uses, and why."""
    values: Mapping[str, Spread]
    """Metric to value, over the counted `ok` trials; without times where those are withheld."""
    trial_values: Mapping[str, Mapping[str, float]]
    """Result id to metric to median of its samples, for the same trials."""
    time_withheld: str | None = None
    reach: Reach = field(default_factory=Reach)
    """The same for all cases of a run."""
    name: str | None = None
    """What the suite calls the subject, where it has several slots."""

    @property
    def outcome(self) -> str:
        """The status, or `set aside` where no row counts."""
        return str(self.status) if self.counted else SET_ASIDE

    @property
    def usable(self) -> bool:
        """Whether the case has values to show."""
        return self.status is Status.OK and bool(self.counted)

    @property
    def trials_with_row(self) -> int:
        """Trials that were measured, excluded or not: one that was measured anew counts once."""
        return len({result.trial.index for result in (*self.counted, *(result for result, _ in self.set_aside))})

    @property
    def declares_tolerance(self) -> bool:
        """Whether a check of the case was held against a tolerance that its implementation declares."""
        return any(TOLERANCE_WORDS in (check.detail or "") for result in self.counted for check in result.checks)

    @property
    def timed(self) -> Timed | None:
        """What a rate is made of; None where the case has no time or its workload counts no work."""
        measured = [result for result in self.counted if TIME in self.trial_values.get(result.id, {})]
        cost = next((result.cost for result in measured if result.cost is not None), None)
        if self.status is not Status.OK or cost is None:
            return None
        seconds = tuple(self.trial_values[result.id][TIME] for result in measured)
        gpus = frozenset(gpu for result in measured if (gpu := gpu_of(result)))
        exact = self.case.workload == COUNTED_FOR_ALL or not self.declares_tolerance
        format_ = OWN_DTYPE if exact else multiplied_in(self.case, self.counted)
        return Timed(self.case, cost, seconds, measured[0].environment, gpus, exact, format_)

    @property
    def gpus(self) -> frozenset[str]:
        """UUIDs of the physical GPUs that its rows ran on, as far as they know."""
        return frozenset(gpu for result in self.counted if (gpu := gpu_of(result)))

    @property
    def rates(self) -> Rates:
        """TFLOP/s, bytes and tokens per second at the median time, with their shares of the run's ceilings."""
        timed = self.timed
        return rates(timed, self.reach.ceilings) if timed else Rates()

    @property
    def label(self) -> str:
        """The subject, with the arm where there are arms."""
        name = self.name or self.case.subject_label
        return name if self.arm == "-" else f"{name} [{self.arm}]"

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many counted rows ended in which status, in the order of `Status`."""
        found = Counter(result.status for result in self.counted)
        return {status: found[status] for status in Status if found[status]}

    @property
    def reason(self) -> str | None:
        """The first reason of a row with this case's status; why it was set aside where no row counts."""
        if not self.counted:
            return next((why for _, why in self.set_aside), None)
        return next((r.reason for r in self.counted if r.status is self.status and r.reason), None)

    @property
    def proof(self) -> Proof | None:
        """The proof of the case: the first that says anything, disproved before proved."""
        found = [result.proof for result in self.counted if result.proof is not None]
        rank = {"disproved": 0, "proved": 1, "unknown": 2, "not_declared": 3}
        return min(found, key=lambda proof: rank.get(proof.verdict, 4), default=None)

    def axis(self, name: str) -> Scalar:
        """Value of an axis, None where this case lacks it."""
        return self.case.axis_or_none(name)


def _case_status(results: Iterable[Result]) -> Status:
    counts = Counter(result.status for result in results)
    for decisive in (Status.INCORRECT, Status.OK):
        if counts[decisive]:
            return decisive
    order = list(Status)
    return min(counts, key=lambda status: (-counts[status], order.index(status)))


def _withheld(case: Case, status: Status, counted: Sequence[Result], beside: Beside) -> str | None:
    if status is Status.INCORRECT:
        return "no time is shown: the numbers of a trial were wrong"
    if case.device.endswith("-interpreter"):
        return "no time is shown: an interpreter says nothing of speed"
    machines = {row.environment.hard_hash: _machine(row) for row in counted if row.status is Status.OK}
    if len(machines) > 1:
        return f"no time is shown: its trials ran on different hardware ({', '.join(sorted(set(machines.values())))})"
    measured = frozenset(row.id for row in counted if row.status is Status.OK)
    if not beside.untimed or beside.untimed != measured:
        return None
    return f"no time is shown: {why_no_time(len(beside.disturbed & measured), len(measured))}"


def _machine(row: Result) -> str:
    hard = row.environment.hard
    return str(hard.get("gpu_model") or hard.get("cpu_model") or hard.get("device"))


def _summary(
    run_id: str, case: Case, arm: str, results: list[Result], last_attempt: int, touched: frozenset[str], *, told: bool
) -> CaseSummary | None:
    counted: list[Result] = []
    aside: list[tuple[Result, str]] = []
    for result in sorted(results, key=lambda r: (r.trial.index, r.trial.attempt, r.id)):
        if result.excluded_reason:
            aside.append((result, f"{EXCLUDED}{result.excluded_reason}"))
        elif result.trial.attempt < last_attempt:
            aside.append((result, "superseded: its block was started anew"))
        else:
            counted.append(result)
    if not counted:
        return None if not aside else CaseSummary(case, arm, run_id, _case_status(results), (), tuple(aside), {}, {})
    status = _case_status(counted)
    beside = _beside(counted, touched)
    withheld = _withheld(case, status, counted, beside)
    trial_values: dict[str, dict[str, float]] = {}
    by_metric: dict[str, list[float]] = {}
    for result in counted:
        if result.status is not Status.OK:
            continue
        own = trial_values.setdefault(result.id, {})
        for measurement in result.measurements:
            if measurement.scope != "trial" or (withheld and measurement.metric in SHOWS_SPEED):
                continue
            stated = measurement.metric in COMPILING or (told and measurement.metric in ENERGY)
            if not stated and beside.takes(result.id, measurement.metric, min(measurement.samples)):
                continue
            own[measurement.metric] = stats.median(measurement.samples)
            by_metric.setdefault(measurement.metric, []).append(own[measurement.metric])
    values = {metric: spread(numbers) for metric, numbers in sorted(by_metric.items())}
    return CaseSummary(case, arm, run_id, status, tuple(counted), tuple(aside), values, trial_values, withheld)


def _beside(counted: Sequence[Result], touched: frozenset[str]) -> Beside:
    measured = [row for row in counted if row.status is Status.OK]
    present = frozenset(row.id for row in measured if on_its_gpu(row.conditions))
    return Beside(present, touched, untimed([row.id for row in measured], touched))


def summarize(run: Run, results: Iterable[Result]) -> list[CaseSummary]:
    """The cases of one run's question, in the suite's order of subjects; canaries and results of other runs are left out."""
    return gather(run, results)[0]


def belongs_to_canary(run: Run, case: Case) -> bool:
    """Whether a row of `run` is there only to show the machine."""
    workload = run.suite_data.get("workload")
    return isinstance(workload, str) and is_canary(case, workload)


def gather(run: Run, results: Iterable[Result], *, told: bool = False) -> tuple[list[CaseSummary], Reach]:
    """The cases of one run's question, and what the machine reached beside them.

    Args:
        told: whether the results are what a page tells; older ones tell energies whoever else computed.
    """
    found = _summaries(run, results, told=told)
    timed = [summary.timed for summary in found]
    measured = ceilings([entry for entry in timed if entry is not None])
    canaries = tuple(summary for summary in found if belongs_to_canary(run, summary.case))
    reach = Reach(canaries, measured)
    return [replace(summary, reach=reach) for summary in found if not belongs_to_canary(run, summary.case)], reach


def _summaries(run: Run, results: Iterable[Result], *, told: bool) -> list[CaseSummary]:
    groups: dict[tuple[str, str], list[Result]] = {}
    attempts: dict[str, int] = {}
    conditions: dict[str, Mapping[str, Json]] = {}
    for result in results:
        if result.run_id != run.id:
            continue
        conditions[result.id] = result.conditions
        point = result.case.point_key
        attempts[point] = max(attempts.get(point, 0), result.trial.attempt)
        groups.setdefault((result.case.key, result.trial.arm), []).append(result)
    touched = disturbed(conditions)
    found = [
        _summary(run.id, rows[0].case, arm, rows, attempts[rows[0].case.point_key], touched, told=told)
        for (_, arm), rows in sorted(groups.items())
    ]
    rank, named = _subject_order(run), _namer(run)
    return sorted(
        (replace(summary, name=named(summary.case)) for summary in found if summary is not None),
        key=lambda s: (s.case.workload, rank(s.case), s.case.subject_label, s.arm, s.case.key),
    )


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _namer(run: Run) -> Callable[[Case], str | None]:
    """What the suite calls a subject of several slots: an arm's own name, or what differs from the defaults."""
    if not _arms(run):
        return lambda case: None
    label = label_of(run.suite_data)
    return lambda case: label(case.subject) if len(case.subject) > 1 else None


def _arms(run: Run) -> tuple[Arm, ...]:
    """The arms of a suite whose workload has defaults; none where it has not, or where an imported run holds no such suite."""
    if not isinstance(run.suite_data.get("defaults"), Mapping):
        return ()
    try:
        return arms_of(run.suite_data)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()  # then each subject is called by all its slots


def _subject_order(run: Run) -> Callable[[Case], tuple[int, ...]]:
    """A sort key that follows the suite's arms or lists of subjects; what the suite does not list comes last."""
    if listed := _arms(run):
        arms = {tuple(sorted(arm.subject.items())): position for position, arm in enumerate(listed)}
        return lambda case: (arms.get(tuple(sorted(case.subject.items())), len(arms)),)
    positions = {
        (slot, name): position
        for slot, names in _mapping(run.suite_data.get("subjects")).items()
        if isinstance(names, list | tuple)
        for position, name in enumerate(names)
        if isinstance(name, str)
    }

    def rank(case: Case) -> tuple[int, ...]:
        return tuple(positions.get(item, len(positions)) for item in sorted(case.subject.items()))

    return rank


def is_baseline(run: Run, case: Case) -> bool:
    """Whether the suite names this case's subject as the one to compare with."""
    baseline = _mapping(run.suite_data.get("baseline"))
    return bool(baseline) and all(case.subject.get(slot) == name for slot, name in baseline.items())
