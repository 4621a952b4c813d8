"""A little repository with a kernel under test, and nights of it that nobody had to wait for: for tests that really measure again."""

from __future__ import annotations

import dataclasses
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.cli import main
from bench.records import Result, Run
from bench.store import Store, new_id

SUITE = """
schema: 1
name: lab
question: Is our norm as fast as it was?
workload: rms_norm
subjects: {rms_norm: [mine]}
sweep: {model: [tiny], seq_len: [64], batch: [1], dtype: [fp32], pass: [forward]}
protocol: {trials: 3, min_samples: 3, max_samples: 3, min_sampling_s: 0, max_sampling_s: 0.2, max_warmup_s: 0.05}
"""

PLUGIN = '''"""The plain norm, after a nap, beside something large."""

from bench.declare import implementation


@implementation(workload="rms_norm", dtypes=["fp32"])
def mine(spec):
    """Of known slowness and size."""
    import time

    import torch

    def replace(module):
        plain = module.forward

        def forward(x):
            kept = torch.ones(KEPT_MIB * 2**18)
            time.sleep(NAP_S)
            return plain(x) + 0 * kept[0]

        module.forward = forward
        return module

    return replace
'''


class Lab:
    """A repository with one suite and one plug-in, and a database."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "kernels"
        self.repository.mkdir(parents=True)
        self.database = folder / "nights.db"
        self.suite = self.repository / "lab.yaml"
        self.plugin = self.repository / "mine.py"
        self.suite.write_text(SUITE)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commits: list[str] = []

    def git(self, *words: str) -> str:
        author = ("-c", "user.name=lab", "-c", "user.email=lab@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *author, *words], cwd=self.repository, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, subject: str, plugin: str) -> str:
        self.plugin.write_text(plugin)
        (self.repository / "news.txt").write_text(subject)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]

    def measure(self, label: str) -> None:
        """One real run of what lies there now."""
        words = ("run", self.suite, "--plugin", self.plugin, "--device", "cpu", "--label", label, "--db", self.database)
        assert main([str(word) for word in words]) == 0

    def nights_before(self, label: str, count: int) -> None:
        """Earlier nights that were as the run of this label, give or take half a per cent."""
        rng = random.Random(7)
        with Store.open(self.database) as store:
            real = store.find_run(label)
            rows = store.results([real.id])
            for night in range(count):
                began = f"2026-01-{night + 1:02}T03:00:00.000+00:00"
                run = dataclasses.replace(
                    real, id=new_id(), label=f"night {night}", started_at=began, finished_at=began, reason="nightly"
                )
                store.add_run(run)
                store.add_results(_scaled(row, run, began, rng.gauss(1, 0.005)) for row in rows)

    def runs(self) -> list[Run]:
        with Store.open(self.database, create=False, read_only=True) as store:
            return store.runs()

    def rows(self, run_id: str) -> Sequence[Result]:
        with Store.open(self.database, create=False, read_only=True) as store:
            return store.results([run_id])


def napping(nap_s: float, *, kept_mib: int = 1) -> str:
    """A plug-in that sleeps so long and holds so much in each call."""
    return PLUGIN.replace("NAP_S", str(nap_s)).replace("KEPT_MIB", str(kept_mib))


def _scaled(row: Result, run: Run, began: str, factor: float) -> Result:
    measurements = tuple(
        dataclasses.replace(m, samples=tuple(sample * factor for sample in m.samples)) if m.metric == "time_s" else m
        for m in row.measurements
    )
    return dataclasses.replace(row, id=new_id(), run_id=run.id, started_at=began, measurements=measurements)
