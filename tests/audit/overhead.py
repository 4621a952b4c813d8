"""How much longer an audited step takes outside the profiled ones, on this machine's CPU: `python -m tests.audit.overhead [PAIRS]`.

Told are two numbers. The first is the probe's own time within a step, by the step, in one process: sharp, and blind for what the probe does
to caches. The second is the ratio of whole steps with and without the audit, in processes in turn, with its 99 % interval: it sees all, and
is as wide as the machine is restless, although only the fastest step of each process counts: whoever else is at work can but slow one down.
The first steps, which warm up and are profiled, count nowhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.audited import FEWEST_STEPS
from bench.judge.intervals import log_ratio
from bench.probing import probe_environment
from bench.stats import median

STEPS = 48
WORDS = [sys.executable, "-m", "tests.audit.overhead"]


def steps_s(count: int) -> Iterator[float]:
    """Trains a small model; the seconds of each step."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = iter(DataLoader(TensorDataset(torch.randn(count * 64, 1024)), batch_size=64))
    for _ in range(count):
        began = time.perf_counter()
        (batch,) = next(batches)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield time.perf_counter() - began


class Timed:
    """A listener of `bench.worker.audit.watch` that times another one."""

    def __init__(self, probe: Any) -> None:
        self._probe = probe
        self.spent_s = 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        call = getattr(self._probe, name)

        def timed(*arguments: Any) -> None:
            began = time.perf_counter()
            call(*arguments)
            self.spent_s += time.perf_counter() - began

        return timed


def share_inside() -> float:
    """The probe's time in this process's undisturbed steps, by theirs."""
    from bench.worker.audit.probe import Probe
    from bench.worker.audit.watch import watch

    with tempfile.TemporaryDirectory() as folder:
        timed = Timed(Probe(Path(folder), 10 * STEPS))
        watch(timed, lambda name, call: None)
        took = steps_s(STEPS)
        for _ in range(FEWEST_STEPS):
            next(took)
        timed.spent_s = 0.0
        took_s = sum(took)
        return timed.spent_s / took_s


def fastest_step_s(*, audited: bool) -> float:
    """Of one process."""
    with tempfile.TemporaryDirectory() as folder:
        plain = dict(os.environ)
        variables = probe_environment(Path(folder), STEPS, plain) if audited else plain
        done = subprocess.run([*WORDS, "loop"], env=variables, capture_output=True, text=True, check=True)
    return min([json.loads(line) for line in done.stdout.splitlines()][FEWEST_STEPS : STEPS - 1])


def main(pairs: int) -> None:
    """Prints both."""
    inside = subprocess.run([*WORDS, "inside"], capture_output=True, text=True, check=True)
    print(f"the probe's own time is {json.loads(inside.stdout):.4%} of a step")
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs):
        for audited in (False, True) if number % 2 else (True, False):
            found[audited].append(fastest_step_s(audited=audited))
    ratio = log_ratio([(found[False], found[True])])
    ends = ratio.interval(0.99)
    plain, watched = (median(found[audited]) * 1e3 for audited in (False, True))
    between = f"{ends.low:.3f} to {ends.high:.3f} with 99 %, {pairs} pairs"
    print(f"a step takes {plain:.2f} ms, audited {watched:.2f} ms: {watched / plain:.3f} times ({between})")


if __name__ == "__main__":
    word = sys.argv[1] if len(sys.argv) > 1 else "5"
    if word == "loop":
        for took_s in steps_s(STEPS):
            print(json.dumps(took_s), flush=True)
    elif word == "inside":
        print(json.dumps(share_inside()))
    else:
        main(int(word))
