"""How much longer an audited step takes outside the profiled ones: `python -m tests.audit.overhead [PAIRS]`, on this machine's CPU.

A loop that prints each step's time runs with and without the audit, in turn; the first eight steps, which warm up and are profiled, count
on neither side. Told is the ratio of process medians with its 99 % interval.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.audited import FEWEST_STEPS
from bench.judge.intervals import log_ratio
from bench.probing import probe_environment
from bench.stats import median

STEPS = 60
LOOP = """
import json
import time

import torch

model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(60):
    began = time.perf_counter()
    model(torch.randn(64, 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps(time.perf_counter() - began), flush=True)
"""


def median_step_s(*, audited: bool) -> float:
    """Of one process."""
    with tempfile.TemporaryDirectory() as folder:
        plain = {**os.environ, "OMP_NUM_THREADS": "1"}
        variables = probe_environment(Path(folder), STEPS, plain) if audited else plain
        done = subprocess.run([sys.executable, "-c", LOOP], env=variables, capture_output=True, text=True, check=True)
    return median([json.loads(line) for line in done.stdout.splitlines()][FEWEST_STEPS : STEPS - 1])


def main(pairs: int) -> None:
    """Prints the ratio."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs):
        for audited in (False, True) if number % 2 else (True, False):
            found[audited].append(median_step_s(audited=audited))
    ratio = log_ratio([(found[False], found[True])])
    ends = ratio.interval(0.99)
    plain, watched = (median(found[audited]) * 1e3 for audited in (False, True))
    between = f"{ends.low:.3f} to {ends.high:.3f} with 99 %, {pairs} pairs"
    print(f"a step takes {plain:.2f} ms, audited {watched:.2f} ms: {watched / plain:.3f} times ({between})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
