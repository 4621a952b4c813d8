"""The nightly job as it is installed: by cron, by make as the workflow does, and by a real Slurm; silent where nothing is worse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from bench.catalogue import load_catalogue
from bench.records import Run, RunState
from bench.store import Store
from bench.suite import expand, load_suite
from tests.test_slurm import _until, slurm  # noqa: F401 - a fixture

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "nightly.yml"

SUITE = """
schema: 1
name: small
question: Which?
workload: rms_norm
subjects: {rms_norm: [eager]}
sweep: {model: [tiny], seq_len: [32, 64], batch: [1], dtype: [fp32], pass: [forward]}
protocol: {trials: 1, min_samples: 3, max_samples: 5, min_sampling_s: 0, max_sampling_s: 0.1, max_warmup_s: 0.05}
"""


class Job:
    """A folder with a suite and a database, and the environment that a job has there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "nights.db"
        (folder / "small.yaml").write_text(SUITE)
        self.variables = {
            **os.environ,
            "SUITES": str(folder / "small.yaml"),
            "DEVICE": "cpu",
            "PROFILE": "",
            "BUDGET": "",
            "FILES": str(folder / "files"),
            "BENCH": f"{sys.executable} -m bench",
            "BENCH_DB": str(self.database),
        }

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        variables: Mapping[str, str] = {**self.variables, **more}
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)

    def nights(self) -> list[Run]:
        with Store.open(self.database, create=False, read_only=True) as store:
            return [run for run in store.runs() if run.reason == "nightly"]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def _workflow_commands() -> list[str]:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["night"]["steps"]
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.slow
def test_the_line_for_cron_and_the_workflows_command_measure_a_night_each_and_say_nothing(job: Job) -> None:
    """The second one has time for one of the two rows: the other waits for its turn."""
    (line,) = [line for line in (ROOT / "nightly" / "crontab").read_text().splitlines() if re.match(r"[\d*]", line)]
    night = job.run("/bin/sh", "-c", line.split(maxsplit=5)[5], CLONE=str(ROOT))
    assert (night.returncode, night.stdout, night.stderr) == (0, "", "")
    (command,) = [command for command in _workflow_commands() if "make nightly" in command]
    night = job.run("/bin/sh", "-c", f"{command} VENV= PYTHON={sys.executable} SUITES={job.variables['SUITES']} PROFILE= BUDGET=1s")
    assert (night.returncode, night.stdout, night.stderr) == (0, "", "")
    assert [run.state for run in job.nights()] == [RunState.BUDGET, RunState.FINISHED]
    assert {path.suffix for path in (job.folder / "files").iterdir()} == {".txt", ".md", ".json", ".xml", ".html"}
    judged = json.loads((job.folder / "files" / "small.json").read_text())
    (waiting,) = judged["waiting"]
    measured = {row["point"]["params"]["seq_len"] for row in judged["rows"]}
    assert {waiting["point"]["params"]["seq_len"], *measured} == {32, 64}
    first = job.nights()[1].started_at
    assert waiting["last_judged"] == first
    assert {row["last_judged"] for row in judged["rows"]} == {first}


def test_a_night_that_cannot_be_measured_says_why_and_fails(job: Job) -> None:
    (job.folder / "small.yaml").write_text(SUITE.replace("eager", "eagre"))
    night = job.run("nightly/night.sh")
    assert night.returncode == 2
    assert "did you mean 'eager'" in night.stderr
    assert len(night.stderr.splitlines()) <= 20
    assert not job.database.exists()


def test_a_job_hands_its_options_on_to_the_following_night_and_asks_for_them(job: Job) -> None:
    """Slurm itself hands nothing on: without its GPU the next night would be one of the CPU."""
    said = job.folder / "said"
    (job.folder / "sbatch").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\n')
    (job.folder / "sbatch").chmod(0o755)
    variables = {
        "PATH": f"{job.folder}:{os.environ['PATH']}", "BENCH": "true",
        "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_ID": "7", "NEXT": "tomorrow",
    }  # fmt: skip
    refused = job.run("bash", "nightly/slurm.sh", **variables)
    assert refused.returncode != 0
    assert "OPTIONS must say" in refused.stderr
    assert not said.exists()
    night = job.run("bash", "nightly/slurm.sh", **variables, OPTIONS="--gpus=1 --time=03:00:00")
    assert (night.returncode, night.stdout, night.stderr) == (0, "", "")
    assert said.read_text().split() == [
        "--parsable", "--gpus=1", "--time=03:00:00", "--begin=tomorrow", "--dependency=afterany:7", "nightly/slurm.sh",
    ]  # fmt: skip


def test_the_workflow_calls_only_what_the_makefile_has(job: Job) -> None:
    data = yaml.safe_load(WORKFLOW.read_text())
    # YAML 1.1 reads the key `on` as true.
    assert data.get("on", data.get(True))["schedule"][0]["cron"].split() == ["0", "3", "*", "*", "*"]
    assert any(step.get("with", {}).get("fetch-depth") == 0 for step in data["jobs"]["night"]["steps"])
    targets = [word for command in _workflow_commands() for word in re.findall(r"\bmake (\w[\w-]*)", command)]
    assert targets == ["env", "nightly"]
    for target in targets:
        assert job.run("make", "--dry-run", target, "VENV=").returncode == 0
    assert (ROOT / data["env"]["SUITES"]).exists()
    assert re.search(rf"^  {data['env']['PROFILE']}:", (ROOT / data["env"]["SUITES"]).read_text(), re.MULTILINE)


@pytest.mark.slow
def test_a_night_on_slurm_measures_judges_and_leaves_an_empty_log(job: Job, slurm: Path) -> None:  # noqa: F811
    variables = {"SLURM_CONF": str(slurm)}
    log = job.folder / "night.log"
    sent = job.run("sbatch", "--parsable", f"--output={log}", "nightly/slurm.sh", **variables)
    assert sent.returncode == 0, sent.stderr
    number = sent.stdout.strip()
    _until(lambda: job.run("squeue", "-h", "-j", number, **variables).stdout.strip() == "", f"the end of job {number}", 240)
    assert log.read_text() == ""
    assert [run.state for run in job.nights()] == [RunState.FINISHED]
    state = job.run("scontrol", "show", "job", number, **variables).stdout
    assert "JobState=COMPLETED" in state


def test_the_script_for_equal_nights_has_more_than_two_hundred_series_in_about_nine_minutes_of_a_gpu() -> None:
    catalogue = load_catalogue([])
    suite = load_suite(ROOT / "nightly" / "aa.yaml", catalogue)
    cases = expand(suite, catalogue, device="cuda").cases
    # A time, three kinds of peak and the error of each case are judged.
    assert len(cases) * 5 > 200
    assert len(cases) * suite.protocol.trials * 2 * 1.2 < 10 * 60
    script = (ROOT / "nightly" / "aa.sh").read_text()
    assert subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=False).returncode == 0
    assert f"{len(cases)} cases" in script
