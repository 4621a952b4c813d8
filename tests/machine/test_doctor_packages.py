from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.machine import Device, doctor_packages, tried
from bench.machine.doctor_packages import (
    availability_findings,
    import_findings,
    operator_findings,
    torch_findings,
)
from bench.machine.findings import Severity
from bench.machine.tried import Import, try_all

GPU = Device(kind="cuda", index=0, uuid="GPU-1234", name="NVIDIA H200", memory_bytes=1)
FACTS: dict[str, Any] = {
    "torch": "2.11.0+cu130",
    "cuda": "13.0",
    "available": True,
    "devices": [{"name": "NVIDIA H200", "uuid": "1234"}],
    "why": None,
    "profiler": {"cpu": None, "cuda": None},
    "triton": None,
}


BODIES = {
    "talks": ("print('I talk')", None),
    "refuses": ("raise ImportError('libcudart.so.12:\\n  cannot open')", "ImportError: libcudart.so.12: cannot open"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "leaves": ("import os; os._exit(3)", "status 3"),
    "complains": ("import os, sys; print('no CPU of ours', file=sys.stderr, flush=True); os._exit(3)", "no CPU of ours"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
    "hangs": ("import subprocess; subprocess.run(['sleep', '61.5'])", "no answer within 2 s"),
}
"""Modules, and what is told of their import."""


def test_each_package_is_told_in_its_own_words_and_none_hides_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (body, _) in BODIES.items():
        (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told: list[tuple[int, int]] = []
    found = try_all(
        [(f"{name}-package", name) for name in BODIES],
        import_s=2.0,
        torch_s=None,
        heard=lambda _name, done, of: told.append((done, of)),
    )
    assert told == [(done, len(BODIES)) for done in range(1, len(BODIES) + 1)]
    for entry, (name, (_, words)) in zip(found.imports, BODIES.items(), strict=True):
        assert entry.package == f"{name}-package"
        assert (entry.seconds is None, (words or "") in (entry.words or "")) == (words is not None, True), entry
    severities = [finding.severity for finding in import_findings(found.imports)]
    assert severities == [Severity.OK] + [Severity.WARN] * (len(BODIES) - 1)
    assert all(finding.advice for finding in import_findings(found.imports) if finding.severity is Severity.WARN)
    left = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
    assert not [path for path in left if path.exists() and b"sleep\x0061.5" in path.read_bytes()]


def test_where_nothing_can_be_tried_every_package_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "python", lambda *_: [sys.executable, "-c", "raise OSError('no memory')"])
    found = try_all([("one", "one"), ("two", "two")])
    assert [entry.words for entry in found.imports] == ["OSError: no memory"] * 2
    assert found.torch == "OSError: no memory"


def test_nobody_waits_for_the_end_of_a_process_that_has_answered_all(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{"name": "", "facts": FACTS}, {"name": "one", "seconds": 0.5}]
    talks_on = (
        f"import json, time\nfor said in {answers!r}: print(json.dumps(said), flush=True)\ntime.sleep(0.3); print('no answer')"
    )
    monkeypatch.setattr(tried, "python", lambda *_: [sys.executable, "-c", talks_on])
    found = try_all([("one-package", "one")])
    assert (found.torch, [entry.seconds for entry in found.imports]) == (FACTS, [0.5])


def test_implementations_are_grouped_by_what_they_need() -> None:
    found = {finding.what: finding for finding in availability_findings(load_catalogue(), [], "cuda")}
    (alone,) = [what for what in found if what.startswith("torch alone")]
    assert "attention.sdpa_flash" in alone
    absent = [finding for what, finding in found.items() if "flash_attn2" in what]
    assert all(finding.severity is Severity.WARN and "pip install" in (finding.advice or "") for finding in absent)


def test_a_package_that_is_installed_and_does_not_import_makes_its_implementations_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_packages, "missing_requirements", lambda _implementation: ())
    broken = Import("flash-attn", "2.8.3", None, "ImportError: undefined symbol")
    found = [f for f in availability_findings(load_catalogue(), [broken], "cuda") if "flash_attn2" in f.what]
    assert [finding.severity for finding in found] == [Severity.WARN]


def test_what_compiles_operators_is_told_with_who_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that is none links nothing, so libaio is not found by it."""
    monkeypatch.setattr(doctor_packages, "missing_requirements", lambda _implementation: ())
    monkeypatch.setattr(doctor_packages, "installed_version", lambda _package: "0.19.8")
    refusing = tmp_path / "refusing"
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.chmod(0o755)
    (tmp_path / "ninja").symlink_to(refusing)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CXX", str(refusing))
    found = {finding.what.split()[0]: finding for finding in operator_findings(load_catalogue(), "cpu")}
    assert found["cpu_adam"].severity is Severity.OK
    assert "optimizer.adamw_cpu_deepspeed" in found["cpu_adam"].what
    assert found["async_io"].severity is Severity.WARN
    assert "offloading.optimizer_nvme will be `unavailable`" in found["async_io"].what
    assert found["async_io"].advice == "apt-get install libaio-dev"
    assert "fused_adam" not in found  # for GPUs alone
    monkeypatch.setenv("CXX", "/no/such/compiler")
    missing = list(operator_findings(load_catalogue(), "cpu"))
    assert {finding.severity for finding in missing} == {Severity.WARN}
    assert all("/no/such/compiler" in finding.what and "g++" in (finding.advice or "") for finding in missing)


@pytest.mark.parametrize(
    ("variable", "place", "there"),
    [
        (None, "usual", True),
        (None, "elsewhere", False),
        ("CUDA_HOME", "elsewhere", True),
        ("CUDA_PATH", "elsewhere", True),
        ("CUDA_HOME", None, False),
    ],
)
def test_the_cuda_compiler_is_looked_for_where_torch_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, place: str | None, there: bool
) -> None:
    """A toolkit without a compiler is no toolkit, and one in its usual place needs no variable."""
    monkeypatch.setattr(doctor_packages, "missing_requirements", lambda _implementation: ())
    monkeypatch.setattr(doctor_packages, "installed_version", lambda _package: "0.19.8")
    monkeypatch.setattr(doctor_packages, "USUAL_CUDA", tmp_path / "usual")
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None if tool == "nvcc" else f"/usr/bin/{tool}")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    if place is not None:
        (tmp_path / place / "bin").mkdir(parents=True)
        (tmp_path / place / "bin" / "nvcc").touch()
    found = {finding.what.split()[0]: finding for finding in operator_findings(load_catalogue(), "cuda")}["fused_adam"]
    assert found.severity is (Severity.OK if there else Severity.WARN)
    assert there or found.advice == "install the CUDA toolkit that torch was built for"


def test_nothing_is_said_of_operators_where_their_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_packages, "missing_requirements", lambda _implementation: ())
    monkeypatch.setattr(doctor_packages, "installed_version", lambda _package: None)
    assert list(operator_findings(load_catalogue(), "cuda")) == []


def test_a_sound_torch_on_a_gpu_has_nothing_but_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_packages, "driver_facts", lambda: {"driver": "580", "cuda": (13, 0)})
    assert {finding.severity for finding in torch_findings(FACTS, GPU)} == {Severity.OK}


@pytest.mark.parametrize(
    ("changes", "words", "severity"),
    [
        ({"available": False, "devices": [], "why": "driver too old"}, "torch does not: driver too old", Severity.PROBLEM),
        ({"devices": [{"name": "NVIDIA H200", "uuid": "9999"}]}, "another GPU", Severity.PROBLEM),
        ({"profiler": {"cpu": None, "cuda": "no permission"}}, "no permission", Severity.WARN),
        ({"triton": "RuntimeError: no C compiler"}, "no C compiler", Severity.PROBLEM),
    ],
)
def test_what_is_wrong_with_torch_is_found(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str, severity: Severity
) -> None:
    monkeypatch.setattr(doctor_packages, "driver_facts", lambda: {"driver": "580", "cuda": (13, 0)})
    found = [finding for finding in torch_findings({**FACTS, **changes}, GPU) if words in finding.what]
    assert [finding.severity for finding in found] == [severity]


def test_a_torch_that_cannot_be_used_is_a_problem_in_its_own_words() -> None:
    (found,) = torch_findings("OSError: libtorch_cpu.so", dataclasses.replace(GPU))
    assert found.severity is Severity.PROBLEM
    assert "libtorch_cpu.so" in found.what


def test_torch_is_examined_and_packages_are_tried_beside_it() -> None:
    found = try_all([("triton", "triton")])
    assert isinstance(found.torch, dict)
    assert found.torch["torch"]
    assert found.torch["profiler"]["cpu"] is None
    assert [entry.words for entry in found.imports] == [None]
