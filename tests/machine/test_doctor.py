from __future__ import annotations

from pathlib import Path

import pytest

from bench.machine import doctor
from bench.machine.findings import Finding, Severity


def only(findings: list[Finding], words: str) -> Finding:
    found = [finding for finding in findings if words in finding.what]
    assert len(found) == 1, [finding.what for finding in findings]
    return found[0]


def cgroup(folder: Path, lines: str, files: dict[str, str]) -> tuple[Path, Path]:
    system, proc = folder / "sys", folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(lines)
    for name, text in files.items():
        path = system / "fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return system, proc


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/\n", {}, None),
        ("3:cpuacct,cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "50000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 0.5),
        ("3:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
        ("4:memory:/x\n", {"cpu/x/cpu.cfs_quota_us": "50000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_the_least_quota_of_all_levels_counts(tmp_path: Path, lines: str, files: dict[str, str], quota: float | None) -> None:
    assert doctor.cpu_quota(*cgroup(tmp_path, lines, files)) == quota


def test_a_quota_below_the_cores_is_a_warning_with_advice(tmp_path: Path) -> None:
    system, proc = cgroup(tmp_path, "0::/a\n", {"a/cpu.max": "50000 100000\n"})
    found = only(list(doctor.processor_findings({}, system, proc)), "limits us to 0.5 cores")
    assert found.severity is Severity.WARN
    assert found.advice


def test_a_governor_that_saves_power_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    path.parent.mkdir(parents=True)
    path.write_text("powersave\n")
    assert only(list(doctor.processor_findings({}, tmp_path, tmp_path)), "powersave").severity is Severity.WARN


def test_busy_neighbours_are_named() -> None:
    conditions = {"busy_processes": [{"name": "blender", "cores": 3.0}], "cpu_stolen_share": 0.2}
    findings = list(doctor.processor_findings(conditions))
    assert only(findings, "blender (3 cores)").severity is Severity.WARN
    assert only(findings, "hypervisor").severity is Severity.WARN


def test_bound_threads_and_a_preloaded_library_are_warnings() -> None:
    findings = list(doctor.thread_findings({"OMP_PROC_BIND": "close", "LD_PRELOAD": "/x.so", "OMP_NUM_THREADS": "8"}))
    assert only(findings, "OMP_PROC_BIND").severity is Severity.WARN
    assert only(findings, "LD_PRELOAD").severity is Severity.WARN
    assert only(findings, "OMP_NUM_THREADS=8").severity is Severity.OK
    assert [finding.severity for finding in doctor.thread_findings({"OMP_PROC_BIND": "false"})] == [Severity.OK]


def test_little_memory_and_much_swap_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal: 16777216 kB\nMemAvailable: 1048576 kB\nSwapTotal: 8388608 kB\nSwapFree: 4194304 kB\n"
    )
    memory, swap = doctor.memory_findings(tmp_path)
    assert (memory.severity, swap.severity) == (Severity.WARN, Severity.WARN)
    assert "1.0 of 16.0 GiB" in memory.what
    assert "4.0 GiB" in swap.what


def test_a_disk_is_looked_at_where_the_folder_will_be(tmp_path: Path) -> None:
    found = doctor.disk_finding("database", "database", tmp_path / "not/yet/bench.db")
    assert found.severity is not Severity.PROBLEM
    assert "GiB free" in found.what


def test_a_missing_compiler_is_said_with_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    monkeypatch.setenv("CC", "/nonexistent/cc")
    findings = list(doctor.compiler_findings("cuda"))
    assert only(findings, "no C++ compiler").severity is Severity.WARN
    assert only(findings, "no C compiler").severity is Severity.PROBLEM
    assert len(list(doctor.compiler_findings("cpu"))) == 1
