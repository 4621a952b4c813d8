"""Whole trials: the order of phases, what a reply holds, and subjects that are wrong in every way that we could think of."""

from __future__ import annotations

import contextlib
import fcntl
import json
import resource
import threading
import time
from pathlib import Path

import pytest
import torch

from bench.declare import Workload
from bench.errors import HarnessError
from bench.records import MEMORY_LIMIT_PARAM, Pass, Protocol, Request, Status, dump, trial_folder
from bench.run.execute import SETTLES
from bench.run.forkserver import server_environment
from bench.worker import besides, trial
from bench.worker.device_cpu import CpuSide
from bench.worker.device_cuda import require_same
from bench.worker.phases import PHASES
from bench.worker.team import Alone
from bench.worker.trial import run_trial
from tests.lending import Lender
from tests.worker.trials import answer, attention, only, plugin, rms_norm


def phases(directory: Path) -> list[str]:
    return [json.loads(line)["phase"] for line in (directory / "phases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("pass_", Workload.passes)
@pytest.mark.parametrize("of", [attention("eager"), rms_norm("torch_native")])
def test_a_good_subject_gets_a_whole_reply(tmp_path: Path, of: object, pass_: Pass) -> None:
    import dataclasses

    reply = answer(tmp_path, dataclasses.replace(of, pass_=pass_))  # type: ignore[type-var]
    assert (reply.status, reply.reason) == (Status.OK, None)
    assert phases(tmp_path) == list(PHASES)
    assert 5 <= len(only(reply, "time_s").samples) <= 20
    assert only(reply, "peak_bytes").samples[0] > 0
    assert only(reply, "build_s").samples[0] >= 0
    assert only(reply, "import_s").samples[0] >= 0
    assert only(reply, "compile_cold_s").samples[0] >= 0
    saved = {m.metric for m in reply.measurements} & {"saved_bytes", "saved_input_bytes"}
    assert len(saved) == (2 if pass_.differentiates else 0)
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    assert reply.cost is not None
    assert reply.cost.flops
    at = {(check.tensor, check.at) for check in reply.checks}
    assert {("out", "small"), ("out", "measured"), ("out", "finite")} <= at
    assert any(name.startswith("grad_") for name, _ in at) == pass_.differentiates
    assert reply.runtime["torch"]
    assert reply.runtime["torch_threads"] == 1
    assert reply.conditions["sampling_stopped_by"] in ("noise", "settled", "time", "count")
    assert not list(tmp_path.glob("*.partial"))


def test_every_gradient_is_compared_at_the_measured_shape_too(tmp_path: Path) -> None:
    reply = answer(tmp_path, attention("sdpa_flash", pass_=Pass.BACKWARD))
    measured = {check.tensor for check in reply.checks if check.at == "measured"}
    assert measured == {"out", "grad_q", "grad_k", "grad_v"}


def test_cold_caches_are_flushed_before_each_sample(tmp_path: Path) -> None:
    protocol = Protocol(min_samples=3, max_samples=3, max_warmup_s=0.01)
    reply = answer(tmp_path, attention("sdpa_flash", cache="cold"), protocol=protocol)
    assert reply.status is Status.OK
    assert only(reply, "time_s").calls_per_sample == 1
    assert reply.conditions["flush_bytes"] > 0


WRONG = {
    "wrong_output": "    return lambda q, k, v: right(q, k, v) * 1.001",
    "wrong_gradient": (
        "    class Wrong(torch.autograd.Function):\n"
        "        @staticmethod\n        def forward(ctx, x): return x.clone()\n"
        "        @staticmethod\n        def backward(ctx, g): return g * 1.01\n"
        "    return lambda q, k, v: right(Wrong.apply(q), k, v)"
    ),
    "cuts_the_graph": "    return lambda q, k, v: right(q, k, v).detach()",
    "no_gradient": "    return lambda q, k, v: right(q, k.detach(), v)",
    "wrong_when_long": "    return lambda q, k, v: right(q, k, v) * (1.0 if q.shape[2] <= 160 else 1.001)",
    "not_finite_when_long": (
        "    def attention(q, k, v):\n        out = right(q, k, v)\n"
        "        return out if q.shape[2] <= 160 else out + torch.zeros_like(out).index_fill(2, torch.tensor([3]), float('inf'))\n"
        "    return attention"
    ),
    "forgets_one_head_when_long": (
        "    def attention(q, k, v):\n        out = right(q, k, v)\n"
        "        if q.shape[2] > 160:\n            out = out.clone()\n            out[-1, -1, -1] *= 1.01\n"
        "        return out\n    return attention"
    ),
    "another_shape": "    return lambda q, k, v: right(q, k, v)[:, :, :-1]",
    "another_dtype": "    return lambda q, k, v: right(q, k, v).double()",
    "remembers": (
        "    memory = []\n    def attention(q, k, v):\n"
        "        if not memory:\n            memory.append(right(q, k, v).detach())\n"
        "        return memory[0].clone().requires_grad_(q.requires_grad)\n    return attention"
    ),
    "remembers_the_forward": (
        "    memory = []\n    def attention(q, k, v):\n"
        "        out = right(q, k, v)\n        if not memory:\n            memory.append(out.detach().clone())\n"
        "        return out - (out - memory[0]).detach()\n    return attention"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_subject_is_incorrect_and_has_no_number_that_could_be_shown(tmp_path: Path, name: str) -> None:
    path = plugin(tmp_path, name, WRONG[name])
    case = attention(name, pass_=Pass.FORWARD_BACKWARD, params={"seq_len": 200})
    reply = answer(tmp_path, case, plugins=(path,))
    assert reply.status is Status.INCORRECT, reply.traceback or reply.reason
    assert reply.measurements == ()
    assert reply.reason
    assert any(not check.passed for check in reply.checks)


def test_a_subject_that_lies_about_its_kernel_is_incorrect(tmp_path: Path) -> None:
    path = plugin(tmp_path, "liar", "    return right", 'proof={"ops": ["flash_attention"], "not": ["aten::bmm"]}')
    reply = answer(tmp_path, attention("liar"), plugins=(path,))
    assert reply.status is Status.INCORRECT
    assert reply.measurements == ()
    assert reply.proof is not None
    assert reply.proof.verdict == "disproved"
    assert "aten::bmm" in reply.proof.observed
    assert "another kernel ran" in str(reply.reason)


def test_a_right_plugin_without_a_proof_is_ok_and_says_that_none_was_declared(tmp_path: Path) -> None:
    path = plugin(tmp_path, "right", "    return right")
    reply = answer(tmp_path, attention("right", pass_=Pass.FORWARD_BACKWARD), plugins=(path,))
    assert reply.status is Status.OK, reply.reason
    assert reply.proof is not None
    assert reply.proof.verdict == "not_declared"


REFUSING = {
    "raises": ("    raise ValueError('broken here')", "", Status.FAILED, "build"),
    "raises_in_the_call": ("    def f(q, k, v):\n        raise ValueError('x')\n    return f", "", Status.FAILED, "first_call"),
    "leaves": ("    return lambda q, k, v: exit(0)", "", Status.FAILED, "first_call"),
    "interrupts": ("    def f(q, k, v):\n        raise KeyboardInterrupt\n    return f", "", Status.FAILED, "first_call"),
    "cannot": ("    raise Unsupported('only on Tuesdays')", "", Status.UNSUPPORTED, "build"),
    "absent": ("    import no_such_package", "", Status.UNAVAILABLE, "build"),
    "not_installed": ("    return right", "requires=['no-such-package-at-all>=2']", Status.UNAVAILABLE, "import"),
    "other_device": ("    return right", "devices=['cuda']", Status.UNSUPPORTED, "import"),
    "other_dtype": ("    return right", "dtypes=['bf16']", Status.UNSUPPORTED, "import"),
    "other_pass": ("    return right", "passes=['backward']", Status.UNSUPPORTED, "import"),
    "absent_at_the_first_call": (
        "    def f(q, k, v):\n        import no_such_package\n    return f",
        "",
        Status.UNAVAILABLE,
        "first_call",
    ),
    "words": (
        "    def f(q, k, v):\n        raise RuntimeError('CUSTOM: head_dim must be 7')\n    return f",
        "refuses=['head_dim must be']",
        Status.UNSUPPORTED,
        "first_call",
    ),
}


@pytest.mark.parametrize("name", REFUSING)
def test_a_subject_that_does_not_run_becomes_a_row_with_its_reason(tmp_path: Path, name: str) -> None:
    body, declaration, status, phase = REFUSING[name]
    reply = answer(tmp_path, attention(name), plugins=(plugin(tmp_path, name, body, declaration),))
    assert (reply.status, reply.phase) == (status, phase), reply.traceback
    assert reply.reason
    assert reply.measurements == ()
    if status is Status.FAILED:
        assert reply.traceback is not None
        assert f"{name}.py" in reply.traceback or name == "leaves"
        assert "trial.py" not in reply.traceback


def test_a_subject_that_takes_all_memory_is_oom_and_the_limit_is_lifted_again(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    path = plugin(
        tmp_path,
        "greedy",
        "    kept = []\n    def f(q, k, v):\n        while True:\n            kept.append(torch.ones(2**22))\n    return f",
    )
    reply = answer(tmp_path, attention("greedy"), plugins=(path,), protocol=Protocol(host_memory_limit_bytes=200 * 2**20))
    assert reply.status is Status.OOM
    assert "allocate" in str(reply.reason)
    assert reply.measurements == ()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize(
    ("lines", "status", "phase", "words"),
    [
        ("    torch.ones(2**26).sum()\n    return right", Status.OK, None, ""),
        ("    held = torch.ones(2**26)\n    def f(q, k, v):\n        return right(q, k, v) + 0 * held[0]\n    return f",
         Status.OOM, "build", "MemoryError: what was built holds 2"),
        ("    def f(q, k, v):\n        torch.ones(2**26).sum()\n        return right(q, k, v)\n    return f",
         Status.OOM, "first_call", "you tried to allocate 268435456 bytes"),
    ],
    ids=["passing", "held", "called"],
)  # fmt: skip
def test_a_cap_binds_what_is_held_once_built_and_what_is_called_but_not_what_building_takes_meanwhile(
    tmp_path: Path, lines: str, status: Status, phase: str | None, words: str
) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    path = plugin(tmp_path, "builder", lines)
    reply = answer(tmp_path, attention("builder", params={MEMORY_LIMIT_PARAM: 200 * 2**20}), plugins=(path,), verify=False)
    assert (reply.status, reply.phase) == (status, phase), reply.reason
    assert words in str(reply.reason)
    assert str(reply.reason).startswith("under a memory_limit of 209,715,200 bytes: ") is (status is Status.OOM)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


SPYING = """    import json, pathlib, weakref
    log, seen, alive = pathlib.Path({log!r}), pathlib.Path({seen!r}), []
    def attention(q, k, v):
        phase = json.loads(log.read_text().splitlines()[-1])["phase"]
        with seen.open("a") as file:
            print(phase, sum(ref() is not None for ref in alive), file=file)
        {then}
        out = right(q, k, v)
        alive.append(weakref.ref(out.untyped_storage()))
        return out
    return attention"""


def spying(directory: Path, name: str, then: str = "") -> Path:
    """A plug-in that writes down the phase of each call and how many of its outputs still live, and does `then`."""
    body = SPYING.format(log=str(directory / "phases.jsonl"), seen=str(directory / "seen"), then=then or "pass")
    return plugin(directory, name, body)


@pytest.mark.parametrize("pass_", Workload.passes)
def test_no_pass_beside_the_timing_holds_two_of_the_subjects_outputs(tmp_path: Path, pass_: Pass) -> None:
    reply = answer(tmp_path, attention("spied", pass_=pass_), plugins=(spying(tmp_path, "spied"),))
    assert reply.status is Status.OK, reply.reason
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    beside = {(phase, int(alive)) for phase, alive in seen if phase in ("check", "memory", "saved", "measured_check", "proof")}
    assert {alive for _, alive in beside} == {0}
    assert {"memory", "measured_check", "proof"} <= {phase for phase, _ in beside}


OUT_OF = "if phase == {phase!r}: raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 8.00 GiB')"


@pytest.mark.parametrize("phase", ["memory", "saved", "measured_check", "proof"])
def test_what_only_we_need_and_does_not_fit_leaves_the_times(tmp_path: Path, phase: str) -> None:
    path = spying(tmp_path, "large", OUT_OF.format(phase=phase))
    reply = answer(tmp_path, attention("large", pass_=Pass.FORWARD_BACKWARD), plugins=(path,))
    assert (reply.status, reply.reason) == (Status.OK, None)
    assert only(reply, "time_s").samples
    why = "out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB"
    assert reply.conditions["not_done"] == {phase: why}
    assert reply.proof is not None
    assert reply.proof.verdict == ("unknown" if phase == "proof" else "not_declared")
    metrics = {m.metric for m in reply.measurements}
    assert ("peak_bytes" in metrics) == (phase != "memory")
    assert ("saved_bytes" in metrics) == (phase != "saved")
    assert ("measured" in {check.at for check in reply.checks}) == (phase != "measured_check")
    assert phases(tmp_path) == list(PHASES)


class Deserted(Alone):
    """A rank whose fellows do not come out of a pass."""

    def all_leave(self, place: str) -> bool:
        return False


def test_being_out_of_memory_where_other_ranks_wait_ends_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "Alone", Deserted)
    path = spying(tmp_path, "large", OUT_OF.format(phase="saved"))
    reply = answer(tmp_path, attention("large", pass_=Pass.FORWARD_BACKWARD), plugins=(path,))
    assert (reply.status, reply.phase) == (Status.OOM, "saved")
    assert list(reply.conditions["not_done"]) == ["saved"]


def test_imports_that_were_made_once_for_all_are_told_beside_the_time_of_importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "IMPORTED", ["one", "two", "one"])
    note = only(answer(tmp_path, attention("eager")), "import_s").note
    assert note == "without what was imported before the fork: one, two"


def test_why_imports_were_not_shared_is_told_in_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "imports_not_shared" not in answer(tmp_path, attention("eager")).conditions
    monkeypatch.setattr(trial, "NOT_SHARED", ["it has 2 threads"])
    assert answer(tmp_path, attention("eager")).conditions["imports_not_shared"] == "it has 2 threads"


def test_garbage_is_collected_before_sampling_begins_and_not_within_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    within: list[str] = []

    def collect() -> None:
        if (tmp_path / "phases.jsonl").exists():
            within.append(phases(tmp_path)[-1])

    monkeypatch.setattr("bench.worker.timing.gc.collect", collect)
    answer(tmp_path, attention("sdpa_flash"))
    assert "warmup" in within
    assert "sampling" not in within


def test_a_whole_trial_says_nothing_of_what_was_not_done(tmp_path: Path) -> None:
    assert "not_done" not in answer(tmp_path, attention("sdpa_flash")).conditions


@pytest.mark.parametrize("phase", ["first_call", "check", "sampling"])
def test_what_the_subject_itself_cannot_hold_is_oom(tmp_path: Path, phase: str) -> None:
    reply = answer(tmp_path, attention("large"), plugins=(spying(tmp_path, "large", OUT_OF.format(phase=phase)),))
    assert (reply.status, reply.phase) == (Status.OOM, phase)
    assert reply.measurements == ()


def test_wrong_numbers_are_wrong_even_where_the_rest_of_the_check_did_not_fit(tmp_path: Path) -> None:
    then = (
        "if phase == 'measured_check':\n"
        "            alive.append(lambda: None)\n"
        "            if len([ref for ref in alive if not isinstance(ref, weakref.ref)]) > 1: raise MemoryError\n"
        "            return right(q, k, v) * float('nan')"
    )
    case = attention("nan_then_oom", pass_=Pass.FORWARD_BACKWARD)
    reply = answer(tmp_path, case, plugins=(spying(tmp_path, "nan_then_oom", then),))
    assert (reply.status, reply.measurements) == (Status.INCORRECT, ())
    assert "not finite at the measured shape" in str(reply.reason)


def test_the_outer_gradient_lies_in_memory_as_the_output_does(tmp_path: Path) -> None:
    body = (
        "    class Spy(torch.autograd.Function):\n"
        "        @staticmethod\n        def forward(ctx, x):\n            ctx.strides = x.stride()\n            return x.view_as(x)\n"
        "        @staticmethod\n        def backward(ctx, g):\n"
        "            if g.stride() != ctx.strides: raise ValueError(f'{g.stride()} for {ctx.strides}')\n            return g\n"
        "    return lambda q, k, v: Spy.apply(right(q, k, v))"
    )
    for pass_ in (Pass.BACKWARD, Pass.FORWARD_BACKWARD):
        reply = answer(tmp_path, attention("spy", pass_=pass_), plugins=(plugin(tmp_path, "spy", body),))
        assert reply.status is Status.OK, reply.reason


NO_TENSOR = {
    "a_tuple": (
        "    return lambda q, k, v: (right(q, k, v), q.sum())",
        "`out` must be one tensor of torch; what was built returned a tuple of 2",
    ),
    "an_array": ("    return lambda q, k, v: right(q, k, v).detach().numpy()", "returned something else: ndarray"),
    "a_tuple_when_short": (
        "    return lambda q, k, v: right(q, k, v) if q.shape[2] == 200 else (right(q, k, v),)",
        "returned a tuple of 1",
    ),
}


@pytest.mark.parametrize("name", NO_TENSOR)
@pytest.mark.parametrize("pass_", [Pass.FORWARD, Pass.FORWARD_BACKWARD])
def test_a_subject_that_returns_no_tensor_fails_in_words_of_what_it_returned(tmp_path: Path, name: str, pass_: Pass) -> None:
    body, words = NO_TENSOR[name]
    case = attention(name, pass_=pass_, params={"seq_len": 200})
    reply = answer(tmp_path, case, plugins=(plugin(tmp_path, name, body),))
    assert (reply.status, reply.measurements) == (Status.FAILED, ())
    assert words in str(reply.reason)
    assert "attribute" not in str(reply.reason)


def test_what_the_host_holds_is_asked_before_our_own_trace_of_the_peak_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    tell, explain = besides.workload_findings, besides.explain_peak
    monkeypatch.setattr(besides, "workload_findings", lambda *of: (order.append("findings"), tell(*of)))
    monkeypatch.setattr(besides, "explain_peak", lambda step: (order.append("trace"), explain(step))[1])
    assert answer(tmp_path, attention("eager")).status is Status.OK
    assert order == ["findings", "trace"]


def test_tf32_is_no_dtype_of_a_cpu(tmp_path: Path) -> None:
    reply = answer(tmp_path, attention("eager", dtype="tf32"))
    assert (reply.status, reply.phase) == (Status.UNSUPPORTED, "device_init")
    assert "tf32" in str(reply.reason)


def test_a_trial_imports_and_then_waits_at_its_gate_before_it_takes_the_device(tmp_path: Path) -> None:
    replies = []
    trial = threading.Thread(target=lambda: replies.append(answer(tmp_path, attention("eager"))))
    with (tmp_path / trial_folder.GATE).open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        trial.start()
        late = time.monotonic() + 60
        while not (tmp_path / "phases.jsonl").exists() or "gate" not in phases(tmp_path):
            assert time.monotonic() < late
            time.sleep(0.01)
        time.sleep(0.2)
        assert phases(tmp_path)[-2:] == ["import", "gate"]
    trial.join()
    assert replies[0].status is Status.OK, replies[0].reason


def test_where_there_is_no_gpu_driver_a_trial_says_so(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    reply = answer(tmp_path, attention("eager", device="cuda", timer="events"))
    assert (reply.status, reply.phase) == (Status.UNAVAILABLE, "device_init")
    assert "torch does not see a CUDA device" in str(reply.reason)


def test_a_gpu_that_is_there_and_that_cuda_cannot_start_now_is_a_failure_of_this_trial_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fabric manager that still starts, say: the next trial may find it ready."""

    def not_yet() -> None:
        raise RuntimeError("CUDA error: system not yet initialized")

    monkeypatch.setattr("torch.cuda.init", not_yet)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    reply = answer(tmp_path, attention("eager", device="cuda", timer="events"))
    assert (reply.status, reply.phase) == (Status.FAILED, "device_init")
    assert reply.status not in SETTLES
    assert "system not yet initialized" in str(reply.reason)


def test_more_ranks_than_gpus_are_refused_as_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    reply = answer(tmp_path, attention("eager", device="cuda", timer="events", world_size=2))
    assert (reply.status, reply.reason) == (Status.UNSUPPORTED, "2 ranks need a GPU each; torch sees 1")


class FakeGpu(CpuSide):
    """A CPU that stands for a GPU: it may be another one than was locked, and its allocator retries once between two looks."""

    def __init__(self, *, wrong: bool = False) -> None:
        super().__init__(1, "fp32", times=True)
        self._wrong = wrong
        self._retries = 0

    def initialise(self) -> None:
        super().initialise()
        if self._wrong:
            require_same("GPU-aaaa", "bbbb", "cuda:0")

    def allocator_retries(self) -> int:
        self._retries += 1
        return self._retries


def test_another_gpu_than_the_locked_one_stops_the_run_and_makes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "open_device", lambda request: FakeGpu(wrong=True))
    with pytest.raises(HarnessError, match=r"cuda:0 is GPU-bbbb here, but the run has locked GPU-aaaa"):
        answer(tmp_path, attention("eager"))
    assert not (tmp_path / "reply.json").exists()


def test_the_locked_gpu_is_known_by_its_uuid_however_it_is_written() -> None:
    require_same("GPU-1a2b3c4d-AAAA", "1a2b3c4d-aaaa", "cuda:0")
    require_same("MIG-1a2b", "ffff", "cuda:0")


def test_retries_of_the_allocator_while_samples_were_taken_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "open_device", lambda request: FakeGpu())
    assert answer(tmp_path, attention("eager")).conditions["allocator_retries_while_sampling"] == 1


def test_what_cannot_be_read_before_the_hand_over_is_our_own_error(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("{}")
    with pytest.raises(ValueError, match="case"):
        run_trial(tmp_path)
    assert phases(tmp_path) == ["started"]
    assert not (tmp_path / "reply.json").exists()


def test_a_plugin_that_cannot_be_imported_is_the_subjects_fault(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import no_such_package\n")
    reply = answer(tmp_path, attention("broken"), plugins=(path,))
    assert reply.status is Status.UNAVAILABLE
    assert "no_such_package" in str(reply.reason)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        (
            # Rank 0 is slow only where nobody waits for it: the ranks measure different times of one call.
            "collective",
            "    import os, time\n    import torch.distributed as dist\n"
            "    def attention(q, k, v):\n        dist.all_reduce(torch.ones(1))\n"
            "        time.sleep(0.005 if os.environ['RANK'] == '0' else 0.0)\n        return right(q, k, v)\n    return attention",
            Status.OK,
        ),
        (
            # Rank 1 skips a collective: nothing of ours may be taken for what rank 0 waits for.
            "out_of_step",
            "    import os\n    import torch.distributed as dist\n    calls = []\n"
            "    def attention(q, k, v):\n        calls.append(1)\n"
            "        if os.environ['RANK'] == '1' and len(calls) == 12:\n            raise ValueError('rank one only')\n"
            "        dist.all_reduce(torch.ones(1))\n        return right(q, k, v)\n    return attention",
            Status.FAILED,
        ),
        (
            "one_raises",
            "    import os\n    if os.environ['RANK'] == '1':\n        raise ValueError('rank one only')\n    return right",
            Status.FAILED,
        ),
    ],
)
def test_two_ranks_take_the_same_samples_and_each_replies(
    tmp_path: Path, lender: Lender, name: str, body: str, status: Status
) -> None:
    path = plugin(tmp_path, name, body)
    case = attention(name, world_size=2)
    protocol = Protocol(min_samples=5, max_samples=50, min_sampling_s=0.0, max_sampling_s=1.0, max_warmup_s=0.2)
    (tmp_path / "request.json").write_text(json.dumps(dump(Request(case, protocol, seed=1, threads=1, plugins=(str(path),)))))
    server = lender.borrow(tmp_path / "server.log", server_environment(1, tmp_path / "caches", {}))
    with contextlib.closing(server):
        assert server.start(lambda: False)
        server.begin(tmp_path, 2)
        ended = server.wait(120.0)
    assert ended is not None
    assert ended.returncode == 0, (tmp_path / "log").read_text()
    assert not (tmp_path / trial_folder.LAUNCH).exists(), "a rank that has a reply ends with 0"
    replies = [json.loads((tmp_path / f"reply.{rank}.json").read_text()) for rank in (0, 1)]
    assert [reply["rank"] for reply in replies] == [0, 1]
    if status is Status.OK:
        assert [reply["status"] for reply in replies] == ["ok", "ok"], replies
        counts = [[len(m["samples"]) for m in reply["measurements"] if m["metric"] == "time_s"] for reply in replies]
        assert counts[0] == counts[1]
    else:
        assert replies[1]["reason"] == "ValueError: rank one only"
        assert replies[0]["status"] == "failed"
        assert replies[0]["error_type"].endswith("PeerLostError") or name == "out_of_step"
    assert phases_of_rank(tmp_path, 1)[-1] == "replied"


def phases_of_rank(directory: Path, rank: int) -> list[str]:
    return [json.loads(line)["phase"] for line in (directory / f"phases.{rank}.jsonl").read_text().splitlines()]


def test_a_later_trial_of_a_case_only_looks_for_numbers_that_are_not_finite(tmp_path: Path) -> None:
    reply = answer(tmp_path, attention("sdpa_flash", pass_=Pass.FORWARD_BACKWARD), verify=False)
    assert reply.status is Status.OK
    assert {(check.tensor, check.at) for check in reply.checks} == {
        (name, "finite") for name in ("out", "grad_q", "grad_k", "grad_v")
    }
    assert reply.proof is None
    body = "    return lambda q, k, v: right(q, k, v) * float('nan')"
    (tmp_path / "nan").mkdir()
    reply = answer(tmp_path / "nan", attention("nan"), plugins=(plugin(tmp_path, "nan", body),), verify=False)
    assert (reply.status, reply.measurements) == (Status.INCORRECT, ())
