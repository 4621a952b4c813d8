from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.machine import Device, doctor_packages
from bench.machine.doctor_packages import (
    Import,
    availability_findings,
    import_findings,
    operator_findings,
    torch_findings,
    try_import,
)
from bench.machine.findings import Severity

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


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    (folder / "some_technique.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "some-technique"


def test_a_package_that_imports_says_how_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = try_import(package(tmp_path, monkeypatch, "print('I talk')"))
    assert found.words is None
    assert found.seconds is not None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ImportError('libcudart.so.12: cannot open')", "ImportError: libcudart.so.12: cannot open"),
        ("import os; os._exit(3)", "status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("import time; time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_a_package_that_does_not_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    found = try_import(package(tmp_path, monkeypatch, body), timeout_s=1.0 if "sleep" in body else 30.0)
    assert words in (found.words or "")
    (finding,) = import_findings([found])
    assert finding.severity is Severity.WARN
    assert finding.advice


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


def test_torch_is_examined_in_a_process_of_its_own() -> None:
    facts = doctor_packages.torch_facts()
    assert isinstance(facts, dict)
    assert facts["torch"]
    assert facts["profiler"]["cpu"] is None
