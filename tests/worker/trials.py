"""Runs one trial in the test's own process and reads its reply."""

from __future__ import annotations

import dataclasses
import gc
import json
import warnings
from pathlib import Path
from typing import Any

import torch._dynamo

from bench.records import Case, Measurement, Protocol, Reply, Request, dump, load_json
from bench.worker.trial import run_trial
from tests.factories import case

QUICK = Protocol(min_samples=5, max_samples=20, min_sampling_s=0.0, max_sampling_s=1.0, max_warmup_s=0.2)


def answer(directory: Path, of: Case, *, protocol: Protocol = QUICK, plugins: tuple[Path, ...] = (), verify: bool = True) -> Reply:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what torch imports for it is deprecated in some releases
        # Tests share a process, and dynamo gives up on a function after some recompilations.
        torch._dynamo.reset()
    # As the fork server does: collections within the trial need not walk through torch and whatever else tests have imported.
    gc.collect()
    gc.freeze()
    request = Request(of, protocol, seed=11, threads=1, plugins=tuple(str(path) for path in plugins), verify=verify)
    (directory / "request.json").write_text(json.dumps(dump(request)))
    # A trial's own process has Python's usual filters; pytest's would turn a library's warning into an error of the subject.
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run_trial(directory)
    return load_json(Reply, (directory / "reply.json").read_bytes())


def attention(subject: str, **changes: Any) -> Case:
    """A tiny attention case; `params` are merged into the usual ones."""
    params = {"heads": 4, "kv_heads": 2, "head_dim": 16, "seq_len": 24, "batch": 2, "mask": "causal", "dropout": 0.0}
    return case(subject, params={**params, **changes.pop("params", {})}, **changes)


def rms_norm(subject: str, **changes: Any) -> Case:
    params = {"hidden_size": 64, "seq_len": 10, "batch": 2, "eps": 1e-5}
    made = case(subject, params={**params, **changes.pop("params", {})}, **changes)
    return dataclasses.replace(made, workload="rms_norm", subject={"rms_norm": subject})


def only(reply: Reply, metric: str) -> Measurement:
    """The one measurement of that metric."""
    found = [m for m in reply.measurements if m.metric == metric]
    assert len(found) == 1, (reply.status, reply.reason, [m.metric for m in reply.measurements])
    return found[0]


def plugin(directory: Path, name: str, body: str, declaration: str = "") -> Path:
    """A lone-file plug-in for attention; `body` is the builder's, indented by the caller's string."""
    path = directory / f"{name}.py"
    path.write_text(
        "from bench.declare import Unavailable, Unsupported, implementation\n\n"
        f'@implementation(workload="attention"{", " + declaration if declaration else ""})\n'
        f"def {name}(spec):\n    import torch\n    from bench.workloads.attention.eager import eager\n"
        f"    right = eager.builder(spec)\n{body}\n"
    )
    return path
