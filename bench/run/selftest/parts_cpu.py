"""The self-test of a CPU: what is timed, for how long, and which limits hold there.

A CPU has no clock counter that we read, so there are no cycles; and its kernels share caches and frequency with whatever else runs,
so a real kernel may spread by 10 % between processes, where the harness itself (a spin) may by 0.5 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.records import Case, Protocol
from bench.run.selftest.comparison import Comparisons
from bench.run.selftest.judgement import Judgement, agreement, at_most
from bench.run.selftest.parts import SLOW_DOWNS, SpreadOf, settled, slow_downs, spreads
from bench.run.selftest.session import Session
from bench.stats import median

BUDGET_S = 60.0
PROTOCOL = Protocol(trials=1, timeout_s=30.0, min_sampling_s=0.05, max_sampling_s=0.4, max_warmup_s=0.2)

SPINS_S = (50e-6, 500e-6, 2e-3)
"""Not longer than the scheduler lets a process run at a stretch: a longer one would often end while another has the core."""
SPIN_TRIALS = 3
LONGEST_EMPTY_S = 5e-6
BASE_SPIN_S = 1e-3
SLOW_DOWN_ROUNDS = 3
COMPARISON_ROUNDS = 7
SPREAD_PROCESSES = 5
COMPARED_WITHIN = 0.05
SPIN_SPREAD = 0.005
KERNEL_SPREAD = 0.10
MATMUL = 384
"""All three sizes: some hundred microseconds, in which the scheduler rarely takes the core away."""


def _matmul(session: Session) -> Case:
    return session.case("matmul", "torch_matmul", m=MATMUL, n=MATMUL, k=MATMUL)


def empty(session: Session) -> Iterator[Judgement]:
    """A call that does nothing."""
    reading = session.measure(session.case("selftest", "nothing"), PROTOCOL)
    samples = reading.samples("time_s")
    line = at_most("zero", "call that does nothing", median(samples), LONGEST_EMPTY_S, "s", "≤ 5 µs")
    yield settled(line, [reading])


def injected(session: Session) -> Iterator[Judgement]:
    """A spin of 1 ms, and the same 2, 5 and 10 % longer."""

    def of(seconds: float) -> float:
        return round(seconds, 9)

    cases = {share: (session.case("selftest", "spin", seconds=of(BASE_SPIN_S * (1 + share))), 1 + share) for share in SLOW_DOWNS}
    base = session.case("selftest", "spin", seconds=BASE_SPIN_S)
    return slow_downs(session, base, cases, PROTOCOL, rounds=SLOW_DOWN_ROUNDS)


def comparisons(session: Session) -> Comparisons:
    """A matrix product by our timer and by torch's."""
    return Comparisons(session, {"matmul": _matmul(session)}, rounds=COMPARISON_ROUNDS, protocol=PROTOCOL)


def compared(session: Session, running: Comparisons) -> Iterator[Judgement]:
    """Our wall timer against torch.utils.benchmark."""
    try:
        running.ask()
        found = running.answer("matmul", session.left_s)
    finally:
        running.end()
    # Nothing samples conditions beside that process, so a trial of the same call tells what else runs.
    line = agreement(
        "other timers",
        "matmul: torch.utils.benchmark against ours",
        found.rounds("wall"),
        found.rounds("torch_timer"),
        within=COMPARED_WITHIN,
    )
    yield settled(line, [session.measure(_matmul(session), PROTOCOL)])


def spread(session: Session) -> Iterator[Judgement]:
    """The harness's own spread, and that of a real kernel."""
    subjects = (
        SpreadOf("busy wait of 200 µs", session.case("selftest", "spin", seconds=200e-6), {"time_s": SPIN_SPREAD}),
        SpreadOf(f"matmul {MATMUL}³ fp32", _matmul(session), {"time_s": KERNEL_SPREAD}),
    )
    return spreads(session, subjects, PROTOCOL, most=SPREAD_PROCESSES)
