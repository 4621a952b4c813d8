from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.errors import DeviceError, HarnessError
from bench.machine import Device
from bench.records import Protocol
from bench.run.selftest import parts_cuda
from bench.run.selftest.comparison import Comparison
from bench.run.selftest.judgement import Judgement, Verdict, exact
from bench.run.selftest.parts import disturbance, settled
from bench.run.selftest.selftest import guarded
from bench.run.selftest.session import NotMeasured, Reading, Session


def reading(**conditions: object) -> Reading:
    return Reading({"time_s": (1e-3,) * 10}, conditions)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"busy_processes": [{"name": "mypy", "cores": 0.9}]}, "mypy"),
        ({"involuntary_switches": 5}, "5 times during 20 samples"),
        ({"cpu_stolen_share": 0.1}, "hypervisor"),
        ({"machine_busy_share": 1.5}, "something else"),
        ({"gpu_uuid": "GPU-1", "other_compute_processes": ["python"]}, "others computed on the GPU: python"),
        ({"gpu_uuid": "GPU-1", "throttle_share": {"hw_thermal_slowdown": 0.2}}, "hw_thermal_slowdown"),
    ],
)
def test_what_went_on_beside_a_trial_is_named(conditions: dict[str, object], words: str) -> None:
    assert words in (disturbance([reading(), reading(**conditions)]) or "")


@pytest.mark.parametrize(
    "conditions",
    [
        {"machine_busy_share": 0.0, "cpu_stolen_share": 0.0, "busy_processes": [], "involuntary_switches": 0},
        {"gpu_uuid": "GPU-1", "throttle_share": {"sw_power_cap": 0.9}},
        {"gpu_uuid": "GPU-1", "busy_processes": [{"name": "mypy", "cores": 0.9}]},
    ],
    ids=["a quiet CPU", "a power cap, the normal state", "a busy CPU beside a GPU"],
)
def test_what_is_normal_excuses_nothing(conditions: dict[str, object]) -> None:
    assert disturbance([reading(**conditions)]) is None


def test_launch_gaps_explain_a_miss_and_do_not_excuse_it() -> None:
    line = settled(exact("m", "x", 1, 2), [reading(gpu_uuid="GPU-1", samples_started_early=3)])
    assert line.verdict is Verdict.MISS
    assert "3 samples" in (line.reason or "")


def one_then(error: BaseException) -> Iterator[Judgement]:
    yield exact("part", "first", 1, 1)
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [(NotMeasured("no clock"), "no clock"), (HarnessError("the server died"), "the server died"), (KeyError("oops"), "oops")],
)
def test_a_part_that_fails_keeps_its_lines_and_says_why(error: BaseException, words: str) -> None:
    first, second = guarded("part", lambda: one_then(error))
    assert first.verdict is Verdict.PASS
    assert second.verdict is Verdict.CANNOT_TELL
    assert words in (second.reason or "")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeviceError("torch does not see the GPU")], ids=["Ctrl-C", "no GPU"])
def test_what_makes_every_part_meaningless_is_not_swallowed_by_one(error: BaseException) -> None:
    with pytest.raises(type(error)):
        guarded("part", lambda: one_then(error))


def test_a_timer_that_fails_on_a_gpu_hides_no_other() -> None:
    found = Comparison(
        {"events": (1e-3,) * 7, "events_at_their_flush": (1e-3,) * 7, "do_bench": (1.01e-3,) * 7, "profiler": (0.9e-3,) * 7},
        {"cuda_graph": "RuntimeError: cannot capture"},
    )
    lines = {
        line.what.split(":")[1].strip().split(" ")[0]: line
        for line in parts_cuda.compared_case("matmul", found)
        if "in cycles" not in line.what
    }
    assert lines["graph"].verdict is Verdict.CANNOT_TELL
    assert "cannot capture" in (lines["graph"].reason or "")
    assert lines["profiler's"].verdict is Verdict.MISS
    assert lines["triton's"].verdict is Verdict.PASS


def test_the_cases_of_a_gpu_can_be_made_and_are_what_the_lines_say(tmp_path: object) -> None:
    device = Device(kind="cuda", index=0, uuid="GPU-1", name="NVIDIA H200", memory_bytes=1)
    session = Session(device, tmp_path, deadline=0.0, stop=lambda: False, notice=print)  # type: ignore[arg-type]
    for make in parts_cuda.COMPARED.values():
        case = make(session)
        spec = session._catalogue.workload(case.workload).spec(case)
        assert (case.device, case.timer, case.cache, spec.dtype) == ("cuda", "events", "cold", "bf16")
    flash = parts_cuda.COMPARED["sdpa_flash"](session)
    assert [flash.params[name] for name in ("batch", "heads", "seq_len", "head_dim")] == [4, 32, 4096, 128]
    with pytest.raises(NotMeasured, match="time"):
        session.measure(flash, Protocol())
