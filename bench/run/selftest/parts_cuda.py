"""The self-test of a CUDA device: what is timed, for how long, and which limits hold there.

The limits of spins are absolute below 600 us because the launch itself costs some microseconds, which no timer that waits for a
launch can leave out; the timer's own zero (an event pair with nothing between) is a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.records import Case, Protocol
from bench.run.selftest.comparison import Comparison, Comparisons
from bench.run.selftest.judgement import Judgement, agreement, agreement_in_cycles, at_most, cannot_tell
from bench.run.selftest.parts import SLOW_DOWNS, SpreadOf, settled, slow_downs, spreads
from bench.run.selftest.session import NotMeasured, Session
from bench.stats import median

BUDGET_S = 150.0
"""Of the 100 s that it may last: what is begun is finished, and the processes have to end."""

KNOWN = Protocol(trials=1, timeout_s=60.0, max_samples=200, min_sampling_s=0.05, max_sampling_s=0.5, max_warmup_s=0.1)
"""For calls whose length does not hang on the SM clock: they need no steady one."""
REAL = Protocol(trials=1, timeout_s=60.0)

SPINS_S = (10e-6, 100e-6, 500e-6, 1e-3, 5e-3)
SPIN_TRIALS = 1
LONGEST_EMPTY_S = 5e-6
COPIED_ELEMENTS = 2**27
"""fp32: 0.5 GiB in and out, bound by memory, so that its time does not hang on the SM clock."""
SLOW_DOWN_ROUNDS = 3
COMPARISON_ROUNDS = 7
COMPARISON_TIMEOUT_S = 45.0
"""For all comparisons together."""
SPREAD_S = 30.0
"""Kept free for the spread between processes."""
SPREAD_PROCESSES = 5
CYCLES_SPREAD = 0.005
TIME_SPREAD = 0.01
COMPARED_WITHIN = 0.02
COMPARED_WITHIN_S = 5e-6

OTHER_TIMERS = {
    "cuda_graph": "graph replay against events",
    "profiler": "profiler's busy time against events",
    "do_bench": "triton's do_bench against events at its flush",
}
"""Timer to the words of its line."""


def _flash(session: Session) -> Case:
    return session.case(
        "attention", "sdpa_flash", dtype="bf16", batch=4, heads=32, kv_heads=32, seq_len=4096, head_dim=128, mask="causal"
    )


def _norm(session: Session, subject: str) -> Case:
    return session.case("rms_norm", subject, dtype="bf16", batch=1, seq_len=8192, hidden_size=4096)


def _matmul(session: Session) -> Case:
    return session.case("matmul", "torch_matmul", dtype="bf16", m=8192, n=8192, k=8192)


COMPARED: Mapping[str, Callable[[Session], Case]] = {
    "sdpa_flash": _flash,
    "rms_norm_eager": lambda session: _norm(session, "eager"),
    "matmul": _matmul,
}
"""Names of files too: no spaces."""


def empty(session: Session) -> Iterator[Judgement]:
    """The timer's zero, and an empty kernel."""
    for subject, what in (("nothing", "event pair with nothing between"), ("empty", "empty kernel")):
        try:
            reading = session.measure(session.case("selftest", subject), KNOWN)
            line = at_most("zero", what, median(reading.samples("time_s")), LONGEST_EMPTY_S, "s", "≤ 5 µs")
            yield settled(line, [reading])
        except NotMeasured as error:
            yield cannot_tell("zero", what, str(error))


def injected(session: Session) -> Iterator[Judgement]:
    """A copy followed by a spin of 0, and by spins of 2, 5 and 10 % of what that takes."""

    def case(seconds: float) -> Case:
        return session.case("selftest", "copy_and_spin", elements=COPIED_ELEMENTS, seconds=round(seconds, 9))

    base_s = median(session.measure(case(0.0), KNOWN).samples("time_s"))
    cases = {share: (case(share * base_s), 1 + share) for share in SLOW_DOWNS}
    return slow_downs(session, case(0.0), cases, KNOWN, rounds=SLOW_DOWN_ROUNDS)


def comparisons(session: Session) -> Comparisons:
    """Calls of one kernel and of several, bound by compute and by memory, all above 200 us."""
    cases = {name: case(session) for name, case in COMPARED.items()}
    return Comparisons(session, cases, rounds=COMPARISON_ROUNDS, protocol=REAL)


def compared(session: Session, running: Comparisons) -> Iterator[Judgement]:
    """Our event timer against graph replay, the profiler, and do_bench at equal flush."""
    end_s = session.left_s - min(COMPARISON_TIMEOUT_S, max(1.0, session.left_s - SPREAD_S))
    try:
        running.ask()
        for name in COMPARED:
            try:
                found = running.answer(name, max(0.0, session.left_s - end_s))
            except NotMeasured as error:
                yield cannot_tell("other timers", name, str(error))
                continue
            yield from compared_case(name, found)
    finally:
        running.end()


def compared_case(name: str, found: Comparison) -> Iterator[Judgement]:
    """Two lines a timer: in time, and in cycles."""
    for timer, words in OTHER_TIMERS.items():
        what = f"{name}: {words}"
        own = "events_at_their_flush" if timer == "do_bench" else "events"
        try:
            ours, theirs = found.rounds(own), found.rounds(timer)
        except NotMeasured as error:
            yield cannot_tell("other timers", what, str(error))
            continue
        line = agreement("other timers", what, ours, theirs, within=COMPARED_WITHIN, within_s=COMPARED_WITHIN_S)
        clocks = [found.clocks_hz.get(arm, (None,) * len(ours)) for arm in (own, timer)]
        yield from agreement_in_cycles(line, ours, theirs, *clocks, within=COMPARED_WITHIN)


def spread(session: Session) -> Iterator[Judgement]:
    """Kernels with another limit each: matrix units under the power cap, memory, and both."""
    limits = {"cycles": CYCLES_SPREAD, "time_s": TIME_SPREAD}
    subjects = (
        SpreadOf("sdpa_flash 4×32×4096×128 bf16", _flash(session), limits),
        SpreadOf("rms_norm torch_native 8192×4096 bf16", _norm(session, "torch_native"), limits),
        SpreadOf("matmul 8192³ bf16", _matmul(session), limits),
    )
    return spreads(session, subjects, REAL, most=SPREAD_PROCESSES)
