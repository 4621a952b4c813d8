"""The nightly job as it is installed: by cron, by make as the workflow does, and by a real Slurm; silent where nothing is worse."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from bench.catalogue import load_catalogue
from bench.errors import StoreError
from bench.records import Pass, Run, RunState
from bench.store import Store, new_id
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

    def has_begun(self) -> bool:
        try:
            return bool(self.nights())
        except StoreError:
            # Nobody has made the tables yet.
            return False


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


@pytest.mark.parametrize("script", ["night.sh", "aa.sh"])
@pytest.mark.parametrize("command", ["/no/such/bench", "/etc/passwd", "python3 -m no_such_module"])
def test_a_command_that_does_not_start_is_trouble_and_not_worse_or_a_code_that_nobody_knows(
    job: Job, script: str, command: str
) -> None:
    night = job.run(f"nightly/{script}", BENCH=command)
    assert (night.returncode, night.stdout) == (2, "")
    assert f"{script}: '{command}' does not start: set BENCH" in night.stderr
    assert not job.database.exists()


def test_an_interrupted_night_leaves_nothing_of_an_earlier_one_in_its_files(job: Job) -> None:
    long = SUITE.replace("max_sampling_s: 0.1", "max_sampling_s: 30").replace("max_samples: 5", "max_samples: 1000000")
    (job.folder / "small.yaml").write_text(long.replace("min_sampling_s: 0,", "min_sampling_s: 30,"))
    (job.folder / "next.yaml").write_text(SUITE.replace("name: small", "name: next"))
    files = job.folder / "files"
    files.mkdir()
    for suite in ("small", "next"):
        for ending in ("json", "xml", "md"):
            (files / f"{suite}.{ending}").write_text("of last night")
    suites = f"{job.variables['SUITES']} {job.folder / 'next.yaml'}"
    night = subprocess.Popen(
        ["nightly/night.sh", "--verbose"], cwd=ROOT, env={**job.variables, "SUITES": suites}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _until(lambda: night.poll() is not None or job.has_begun(), "the beginning of the night")
        night.send_signal(signal.SIGINT)
        said, _ = night.communicate(timeout=120)
    finally:
        night.kill()
        night.wait()
    assert night.returncode == 130, said
    assert "small: interrupted" in (files / "small.md").read_text()
    assert "not measured: the night was interrupted before it" in (files / "next.md").read_text()
    assert not [path.name for path in files.iterdir() if path.suffix not in (".md", ".txt")]
    assert [run.state for run in job.nights()] == [RunState.INTERRUPTED]


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


def _add_a_row_that_no_later_night_has(job: Job) -> None:
    """To the first night: the same was asked of all."""
    (run,) = job.nights()
    with Store.open(job.database) as store:
        row = store.results([run.id])[0]
        longer = dataclasses.replace(row.case, params={**row.case.params, "seq_len": 96})
        store.add_results([dataclasses.replace(row, id=new_id(), trial=dataclasses.replace(row.trial, case=longer))])


@pytest.mark.slow
def test_a_series_of_nights_on_slurm_hands_its_options_on_and_fails_the_job_whose_night_is_worse(job: Job, slurm: Path) -> None:  # noqa: F811
    """The first night is well, and its log empty. Of the second a row is gone, as when a kernel is not built any more."""
    options = f"--time=00:20:00 --output={job.folder}/night-%j.log"
    variables = {"SLURM_CONF": str(slurm), "OPTIONS": options, "NEXT": "now+24hours"}

    def told(number: str) -> dict[str, str]:
        words = job.run("scontrol", "--oneliner", "show", "job", number, **variables).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def waiting() -> list[str]:
        return job.run("squeue", "-h", "-o", "%i", "--states=PENDING", **variables).stdout.split()

    def ended(number: str) -> dict[str, str]:
        _until(lambda: told(number)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), f"the end of job {number}", 240)
        return told(number)

    sent = job.run("sbatch", "--parsable", *options.split(), "nightly/slurm.sh", **variables)
    assert sent.returncode == 0, sent.stderr
    first = sent.stdout.strip()
    state = ended(first)
    assert (state["JobState"], (job.folder / f"night-{first}.log").read_text()) == ("COMPLETED", "")
    assert [run.state for run in job.nights()] == [RunState.FINISHED]

    (following,) = waiting()
    state = told(following)
    assert (state["TimeLimit"], state["Command"].endswith("nightly/slurm.sh"), state["WorkDir"]) == ("00:20:00", True, str(ROOT))
    apart = datetime.fromisoformat(state["StartTime"]) - datetime.fromisoformat(told(first)["StartTime"])
    assert timedelta(hours=23, minutes=55) < apart < timedelta(hours=24, minutes=5)

    _add_a_row_that_no_later_night_has(job)
    assert job.run("scontrol", "update", f"jobid={following}", "StartTime=now", **variables).returncode == 0
    state = ended(following)
    assert (state["JobState"], state["ExitCode"]) == ("FAILED", "1:0")
    log = (job.folder / f"night-{following}.log").read_text()
    assert "missing" in log
    assert len(log.splitlines()) <= 20
    assert len(job.nights()) == 2
    # And the one after it stands in the queue: a night that fails ends no series.
    (last,) = waiting()
    assert last not in (first, following)
    assert job.run("scancel", last, **variables).returncode == 0


def test_the_script_for_equal_nights_has_two_hundred_series_on_a_gpu_and_forty_processes_of_twenty_cases() -> None:
    catalogue = load_catalogue([])
    suites = [load_suite(ROOT / "nightly" / "aa.yaml", catalogue, profile=profile) for profile in ("many", "nights")]
    many, nights = (expand(suite, catalogue, device="cuda").cases for suite in suites)
    assert not {case.key for case in many} & {case.key for case in nights}
    # A time, four kinds of peak and the error of each are judged, and what a backward keeps.
    judged = sum(7 if case.pass_ is Pass.FORWARD_BACKWARD else 6 for case in (*many, *nights))
    assert judged > 200
    assert (len(nights), 2 * suites[1].protocol.trials) == (20, 40)
    processes = 2 * (len(many) * suites[0].protocol.trials + len(nights) * suites[1].protocol.trials)
    script = (ROOT / "nightly" / "aa.sh").read_text()
    assert f"{processes} processes" in script
    without = load_suite(ROOT / "nightly" / "aa.yaml", catalogue, profile="cpu")
    assert (len(expand(without, catalogue, device="cpu").cases), 2 * without.protocol.trials) == (20, 40)
    assert f"{2 * 20 * without.protocol.trials} processes, five minutes" in script


def test_the_script_for_equal_nights_gives_each_gpu_its_series_in_both_halves_and_goes_on_where_it_was_cut_off(job: Job) -> None:
    said = job.folder / "said"
    # Of what was measured before, one run is whole and one is not.
    (job.folder / "bench").write_text(
        f"""#!/bin/sh
[ "$1" != --version ] || exit 0
if [ "$1" = show ]; then
    case $2 in
    old-nights-1-0) echo "state     finished" ;;
    old-nights-1-1) echo "state     interrupted, 3 of 4 planned trials have a row" ;;
    *) exit 2 ;;
    esac
    exit
fi
echo "$*" >>{said}
[ "$1" != compare ] || exit 3
[ "$1" != selftest ] || exit 1
"""
    )
    (job.folder / "bench").chmod(0o755)
    done = job.run("nightly/aa.sh", "--trials", "4", BENCH=str(job.folder / "bench"), PARTS="nights", GPUS="2", NAME="old")
    assert (done.returncode, done.stderr) == (1, "")
    lines = said.read_text().splitlines()
    measured = "run nightly/aa.yaml --label old-nights-2-{0} --profile nights --device cuda:{0} --shard {1}/2 --trials 4"
    assert lines[0] == "run --resume old-nights-1-1"
    assert sorted(lines[1:3]) == [measured.format(0, 1), measured.format(1, 2)]
    assert lines[3:] == [
        "compare old-nights-1-0 old-nights-2-0",
        "compare old-nights-1-1 old-nights-2-1",
        "selftest --aa old-nights-1-0 --aa old-nights-2-0 --aa old-nights-1-1 --aa old-nights-2-1",
    ]
