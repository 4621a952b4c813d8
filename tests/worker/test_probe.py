"""Probes: whether a case fits, in two calls at the measured shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.records import Pass, Protocol, Status
from bench.worker.device_cpu import CpuSide
from bench.worker.memory_cpu import peak_bytes
from bench.worker.probe import NOT_LOOKED_AT, NOTE, probe
from bench.worker.step import Step
from bench.worker.team import Alone
from bench.workloads.train_step import WORKLOAD
from bench.workloads.train_step._data import make_batch
from tests.worker.test_trial import phases
from tests.worker.trials import answer, attention, only, plugin
from tests.workloads.training import training

PROBE = Protocol(trials=1, probe=True)
COUNTS = """
    import torch
    def attention(q, k, v):
        if q.shape[2] == 300:
            print("a call at the measured shape")
            CALLS.append(1)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=spec.scale, enable_gqa=True)
        return out * float("inf") if len(CALLS) == WRONG_AT else out
    return attention
"""


@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.FORWARD_BACKWARD])
def test_a_probe_tells_time_and_peak_of_one_call_and_looks_no_further(tmp_path: Path, pass_: Pass) -> None:
    reply = answer(tmp_path, attention("sdpa_flash", pass_=pass_), protocol=PROBE)
    assert (reply.status, reply.reason) == (Status.OK, None)
    assert (only(reply, "time_s").note, len(only(reply, "time_s").samples)) == (NOTE, 1)
    assert only(reply, "peak_bytes").samples[0] > 0
    assert {m.metric for m in reply.measurements} == {"build_s", "import_s", "time_s", "peak_bytes"}
    assert reply.proof is not None
    assert (reply.proof.verdict, reply.proof.detail) == ("unknown", NOT_LOOKED_AT)
    assert {check.at for check in reply.checks} == {"small", "finite"}
    assert phases(tmp_path)[-4:] == ["check", "memory", "findings", "replied"]


def test_a_probe_of_a_training_step_tells_what_its_states_hold_and_how_it_computes(tmp_path: Path) -> None:
    reply = answer(tmp_path, training("bf16_master", fills={"optimizer": "adamw_fused"}), protocol=PROBE)
    assert (reply.status, reply.reason) == (Status.OK, None)
    weights, states = only(reply, "weight_bytes").samples[0], only(reply, "state_bytes").samples[0]
    assert 3.9 * weights < states < 4.1 * weights  # two moments of 32 bits beside weights of 16
    assert (reply.conditions["numerics_weights"], reply.conditions["numerics_master"]) == ("bf16", "fp32")


def counting(directory: Path, wrong_at: int) -> Path:
    path = plugin(directory, "counting", COUNTS.strip("\n").replace("WRONG_AT", str(wrong_at)))
    path.write_text(path.read_text().replace("@implementation", "CALLS = []\n\n\n@implementation", 1))
    return path


def test_a_probe_makes_two_calls_at_the_measured_shape(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reply = answer(tmp_path, attention("counting", params={"seq_len": 300}), protocol=PROBE, plugins=(counting(tmp_path, 0),))
    assert reply.status is Status.OK, reply.reason
    assert capfd.readouterr().out.count("a call at the measured shape") == 2


def test_a_probe_whose_counted_call_gives_infinity_is_incorrect(tmp_path: Path) -> None:
    reply = answer(tmp_path, attention("counting", params={"seq_len": 300}), protocol=PROBE, plugins=(counting(tmp_path, 2),))
    assert reply.status is Status.INCORRECT
    assert "not finite" in (reply.reason or "")


def test_a_probe_of_a_training_step_counts_what_all_later_steps_hold_and_looks_at_no_gradient() -> None:
    case = training("fp32", fills={"optimizer": "adamw_fused"})
    catalogue = load_catalogue()
    built = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    bound = WORKLOAD.bind(WORKLOAD.spec(case), built, {"seed": torch.tensor(7)})
    inputs = make_batch(WORKLOAD.spec(case), torch.Generator().manual_seed(3))
    step = Step(bound, inputs, {}, case.pass_)
    step.prepare()
    step()
    found = probe(step, CpuSide(1, "fp32", times=True), Alone())
    later = [peak_bytes(step) for _ in range(2)]
    peaks = [[one.samples for one in measured if one.metric == "peak_bytes"] for measured in (found.measurements, *later)]
    assert peaks[0] == peaks[1] == peaks[2]
