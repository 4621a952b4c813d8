"""Triton's kernels on a CPU, in real trials: numbers and memory, and never a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue, missing_requirements
from bench.cli import main
from bench.machine import find_device
from bench.records import Case, Json, Pass, Protocol, Reply, Scalar, Status, Trial
from bench.run.worker import Worker, import_environment
from bench.store import Store
from tests.factories import case as any_case
from tests.lending import Lender

NORM: dict[str, Scalar] = {"hidden_size": 64, "seq_len": 6, "batch": 2, "eps": 1e-5}
MLP: dict[str, Scalar] = {"hidden_size": 32, "intermediate_size": 48, "seq_len": 6, "batch": 2}
CASES: list[tuple[str, dict[str, Scalar]]] = [
    ("rms_norm", NORM),
    ("layer_norm", NORM),
    ("fused_add_rms_norm", NORM),
    ("rope", {"heads": 4, "kv_heads": 2, "head_dim": 16, "rope_theta": 10_000.0, "seq_len": 6, "batch": 2}),
    ("swiglu", {**MLP, "part": "mlp"}),
    ("swiglu", {**MLP, "part": "activation"}),
    ("geglu", {**MLP, "part": "mlp"}),
    ("geglu", {**MLP, "part": "activation"}),
]
IDS = [f"{name}-{params['part']}" if "part" in params else name for name, params in CASES]

SCALED = """
from bench.declare import implementation

@implementation(workload="rms_norm", devices=["cpu-interpreter"], proof={"cpu": {"ops": ["^Scaled$"]}})
def scaled_rows(spec):
    import torch, triton
    import triton.language as tl

    @triton.jit
    def scale(x, out, scale, width, BLOCK: tl.constexpr):
        columns = tl.arange(0, BLOCK)
        row = tl.program_id(0)
        values = tl.load(x + row * width + columns, mask=columns < width, other=0.0)
        tl.store(out + row * width + columns, values * scale.to(tl.float32), mask=columns < width)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            out = torch.empty_like(x)
            scale[(x.numel() // spec.hidden_size,)](x, out, factor, spec.hidden_size, BLOCK=64)
            return out

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    class Module(torch.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            normed = torch.nn.functional.rms_norm(x, (spec.hidden_size,), self.weight, spec.eps)
            return Scaled.apply(normed, FACTOR)

    return lambda module: Module(module.weight)
"""


def case(workload: str, name: str, params: dict[str, Scalar], **changes: object) -> Case:
    made = any_case(name, params=params, device="cpu-interpreter", pass_=Pass.FORWARD_BACKWARD)
    return dataclasses.replace(made, workload=workload, subject={workload: name}, **changes)  # type: ignore[arg-type]


class Interpreter:
    """One worker for all tests of this file."""

    def __init__(self, folder: Path, plugins: tuple[str, ...] = ()) -> None:
        device = find_device("cpu-interpreter")
        self.worker = Worker(folder, device, threads=1, plugins=plugins, stop=lambda: False, notice=lambda _text: None)

    def measure(self, case: Case) -> tuple[Reply, dict[str, Json]]:
        measured = self.worker.measure(Trial(case, index=0, block=0, position=0), Protocol(timeout_s=120.0), seed=3)
        assert measured is not None
        reply = measured.answer.reply
        return reply, dict(reply.conditions)


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory, lender: Lender) -> Iterator[Interpreter]:
    folder = tmp_path_factory.mktemp("interpreter")
    plugins = []
    for name, factor in (("right", "1.0"), ("wrong", "1.01")):
        path = folder / f"{name}.py"
        path.write_text(SCALED.replace("FACTOR", factor).replace("scaled_rows", f"{name}_rows"))
        plugins.append(str(path))
    (folder / "run").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.run.worker.ForkServer", lender.borrow)
        made = Interpreter(folder / "run", tuple(plugins))
        yield made
        made.worker.close()


def needs_liger() -> None:
    missing = missing_requirements(load_catalogue().implementation("rms_norm", "liger"))
    if missing:
        pytest.skip("; ".join(missing))


@pytest.mark.parametrize(("workload", "params"), CASES, ids=IDS)
def test_ligers_kernels_are_right_and_proved_and_have_no_time(
    interpreter: Interpreter, workload: str, params: dict[str, Scalar]
) -> None:
    needs_liger()
    reply, conditions = interpreter.measure(case(workload, "liger", params))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert {check.at for check in reply.checks} == {"small", "finite", "measured"}
    assert any(check.tensor.startswith("grad_") for check in reply.checks)
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    metrics = {measurement.metric for measurement in reply.measurements}
    assert {"peak_bytes", "saved_bytes"} <= metrics
    assert not metrics & {"time_s", "cycles", "compile_cold_s", "compile_warm_s"}
    assert conditions["no_time"] == "an interpreter says nothing of speed"
    assert "fp32" in str(conditions["interpreter_additions"])
    assert "triton_interpreter" in reply.runtime


def test_fp16_is_right_and_bf16_is_refused_before_anything_is_computed(interpreter: Interpreter) -> None:
    needs_liger()
    reply, _ = interpreter.measure(case("rms_norm", "liger", NORM, dtype="fp16"))
    assert reply.status is Status.OK, reply.reason
    reply, _ = interpreter.measure(case("rms_norm", "liger", NORM, dtype="bf16"))
    assert reply.status is Status.UNSUPPORTED
    assert reply.reason == "Triton's interpreter cannot compute in bf16: numpy lacks it; take fp32"


def test_what_a_fused_norm_saves_in_memory_is_seen_without_a_gpu(interpreter: Interpreter) -> None:
    needs_liger()
    peaks = {}
    for name in ("eager", "liger"):
        reply, conditions = interpreter.measure(case("rms_norm", name, NORM))
        assert reply.status is Status.OK, reply.reason
        assert "no_time" in conditions
        peaks[name] = next(m.samples[0] for m in reply.measurements if m.metric == "peak_bytes")
    assert peaks["liger"] < peaks["eager"] / 3


def test_a_plug_ins_own_kernel_runs_and_a_wrong_one_is_caught(interpreter: Interpreter) -> None:
    pytest.importorskip("triton")
    reply, _ = interpreter.measure(case("rms_norm", "right_rows", NORM))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    reply, _ = interpreter.measure(case("rms_norm", "wrong_rows", NORM))
    assert reply.status is Status.INCORRECT
    assert "error" in str(reply.reason)


@pytest.mark.usefixtures("shared_server")
def test_a_row_says_that_it_was_interpreted_and_how_to_measure_it_again(tmp_path: Path) -> None:
    (tmp_path / "norm.yaml").write_text(
        "schema: 1\nname: norm\nquestion: Does it run?\nworkload: rms_norm\nsubjects: {rms_norm: [torch_native]}\n"
        "sweep: {model: [tiny], seq_len: [8], dtype: [fp32], pass: [forward]}\nprotocol: {trials: 1}\n"
    )
    database = str(tmp_path / "results.db")
    assert main(["run", str(tmp_path / "norm.yaml"), "--device", "cpu-interpreter", "--db", database]) == 0
    with Store.open(database) as store:
        (row,) = store.results([store.find_run("latest").id])
    assert row.status is Status.OK, row.reason
    assert row.environment.hard["device"] == "cpu-interpreter"
    assert row.environment.hard["cpu_model"] == find_device("cpu").name
    assert row.environment.soft["env:TRITON_INTERPRET"] == "1"
    assert "--device cpu-interpreter" in row.command
    assert main(["rerun", row.id, "--db", database]) == 0


def test_only_an_interpreters_trial_gets_a_server_that_interprets() -> None:
    trials = [
        Trial(dataclasses.replace(any_case(), device=device), index=0, block=0, position=0) for device in ("cpu", "cpu-interpreter")
    ]
    assert [import_environment(trial) for trial in trials] == [{}, {"TRITON_INTERPRET": "1"}]
