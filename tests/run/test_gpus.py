"""One run on several GPUs at once: real processes, servers, locks and rows on GPUs that are only pretended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import bench.machine
from bench.catalogue import load_catalogue
from bench.errors import DeviceError
from bench.records import Pass, Result, Run, RunState
from bench.report.numbers.summary import gather
from bench.run import RunOptions, find_gpus, make_plan
from bench.run.canaries import canary_arm, is_canary
from bench.run.execute import _lock_names
from bench.run.gpus import execute_on_gpus
from bench.run.order import order
from bench.run.plan import Part
from bench.run.resume import _start_anew
from bench.store import Store
from bench.suite import expand, suite_from_data
from tests import factories
from tests.report.gpu_sample import gpu_run
from tests.run.fake_gpus import FakeGpu
from tests.run.fake_gpus import find_device as find_fake
from tests.run.laboratory import QUICK, command_line, marked, write_plugin, write_suite

ROOT = Path(__file__).parents[2]
POINTS, SUBJECTS = 4, ["eager", "sdpa_math"]
SIZES = "seq_len: [16, 32, 48, 64]"

MEETS = """
    import os, pathlib, time
    folder = pathlib.Path(os.environ["TMPDIR"]) / "met"
    folder.mkdir(exist_ok=True)
    (folder / str(os.getppid())).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the harness: a run goes on only with the one that began it, and ours may be edited while this test runs."""
    folder = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "bench", folder / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests/run").mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/run/__init__.py", "tests/run/fake_gpus.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


class Node:
    """A host that pretends to have two GPUs, with a suite and a database."""

    def __init__(self, folder: Path, source: Path, *, trials: int = 1, plugins: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.database = folder / "bench.db"
        write_suite(folder, [*SUBJECTS, *plugins], sweep=SIZES, protocol=QUICK.replace("trials: 1", f"trials: {trials}"))
        self._variables = {**os.environ, "PYTHONPATH": str(source), "BENCH_DB": str(self.database)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.run.fake_gpus", "run", *arguments]
        return subprocess.Popen(
            command, env=self._variables, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        out, err = (process := self.start(*arguments)).communicate(timeout=240)
        return process.returncode, out + err

    def stored(self) -> tuple[Run, list[Result]]:
        with Store.open(self.database, create=False, read_only=True) as store:
            run = store.find_run("latest")
            return run, store.results([run.id], include_excluded=True)

    def living(self, *words: str) -> list[int]:
        """Processes of ours whose command line holds all `words`."""
        return [
            process.pid
            for process in marked(str(self.folder))
            if all(word.encode() in command_line(process) for word in words) and process.pid != os.getpid()
        ]


@pytest.fixture
def node(tmp_path: Path, source: Path) -> Callable[..., Node]:
    return lambda **more: Node(tmp_path, source, **more)


def _until(what: Callable[[], bool], words: str) -> None:
    ends = time.monotonic() + 120
    while not what():
        assert time.monotonic() < ends, f"{words} did not happen"
        time.sleep(0.05)


def _gpu(row: Result) -> str:
    return str(row.environment.hard["cpu_model"])


def _read_until(process: subprocess.Popen[str], *words: str) -> str:
    assert process.stderr is not None
    seen = ""
    while not all(word in seen for word in words):
        line = process.stderr.readline()
        assert line, f"it ended too early: {seen}"
        seen += line
    return seen


def test_two_gpus_measure_one_run_at_the_same_time_each_block_on_one_of_them(node: Callable[..., Node]) -> None:
    here = node(plugins=("meets",))
    _write_meets(here.folder)
    # One GPU after the other would run into the time-out.
    code, said = here.run("lab.yaml", "--gpus", "all", "--plugin", "meets.py", "--report", "report.csv", "--seed", "3")
    assert code == 0, said
    run, rows = here.stored()
    trials = POINTS * (len(SUBJECTS) + 1)
    assert (run.state, run.planned_trials, len(rows)) == (RunState.FINISHED, trials, trials)
    assert {str(row.status) for row in rows} == {"ok"}
    by_point: dict[str, set[str]] = {}
    for row in rows:
        by_point.setdefault(row.case.point_key, set()).add(_gpu(row))
    assert all(len(gpus) == 1 for gpus in by_point.values())
    assert [sum(gpu in gpus for gpus in by_point.values()) for gpu in ("Pretended GPU 0", "Pretended GPU 1")] == [2, 2]
    assert "on 2 GPUs at the same time: about" in said
    assert f"[{trials}/{trials}, done] cuda:" in said
    assert f"{trials} of {trials} trials have a row: {trials} ok" in said
    assert "--gpus all" in run.command
    assert len((here.folder / "report.csv").read_text().splitlines()) == 1 + POINTS * (len(SUBJECTS) + 1)
    assert here.living() == []


def _write_meets(folder: Path) -> None:
    """The plug-in `meets`, whose trials end only once two fork servers have begun one."""
    plugin = Path(write_plugin(folder, "right")).read_text().replace("def right(spec):", f"def meets(spec):{MEETS}")
    (folder / "meets.py").write_text(f'print("I am imported")\n{plugin}')


@pytest.mark.slow
def test_a_lost_gpu_ctrl_c_and_the_death_of_the_parent_lose_no_row_and_leave_no_process(node: Callable[..., Node]) -> None:
    # No GPU is done with its first block before the other has begun: both have trials left when one is lost.
    here = node(trials=2, plugins=("meets",))
    _write_meets(here.folder)
    first = here.start("lab.yaml", "--gpus", "0,1", "--plugin", "meets.py")
    _read_until(first, "cuda:0: attention", "cuda:1: attention")
    (part,) = here.living("part", "cuda:1")
    os.kill(part, signal.SIGKILL)
    seen = _read_until(first, "cuda:1 is lost to this run: its process ended with signal 9", "\n")
    if "cuda:0: attention" not in seen.partition("is lost")[2]:
        _read_until(first, "cuda:0: attention")
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 130, out + err
    assert here.living() == []
    run, rows = here.stored()
    assert run.state is RunState.INTERRUPTED
    assert {_gpu(row) for row in rows} == {"Pretended GPU 0", "Pretended GPU 1"}
    assert 3 <= len(rows) < run.planned_trials == POINTS * (len(SUBJECTS) + 1) * 2
    assert f"bench run --resume {run.id[:13]} " in out

    second = here.start("--resume", "latest")
    _read_until(second, "cuda:0: attention", "cuda:1: attention")
    second.kill()
    second.communicate()
    _until(lambda: here.living() == [], "the end of all processes")
    kept = {row.id for row in rows}
    _, rows = here.stored()
    # Each block has gone on where it was begun: nothing was measured twice or set aside.
    assert kept <= {row.id for row in rows}
    assert {(row.trial.attempt, row.excluded_reason) for row in rows} == {(0, None)}

    begun_elsewhere = {row.case.point_key for row in rows if _gpu(row) == "Pretended GPU 1"}
    of_first = {row.id for row in rows if _gpu(row) == "Pretended GPU 0"}
    code, said = here.run("--resume", "latest", "--gpus", "0")
    assert code == 0, said
    run, rows = here.stored()
    assert run.state is RunState.FINISHED
    counted = [row for row in rows if not row.excluded_reason]
    assert len({(row.case.key, row.trial.index) for row in counted}) == len(counted) == run.planned_trials
    assert of_first <= {row.id for row in counted}
    anew = {row.case.point_key for row in rows if row.excluded_reason}
    assert anew <= begun_elsewhere
    assert {_gpu(row) for row in counted if row.case.point_key in anew} <= {"Pretended GPU 0"}


def test_a_point_stays_on_its_gpu_whatever_the_seed() -> None:
    cases = [factories.case(subject, seq_len=2**power) for power in range(4, 12) for subject in SUBJECTS]
    parts = [{trial.case.point_key for trial in order(cases, 2, seed, part=(1, 3))} for seed in range(5)]
    assert parts == [parts[0]] * 5
    of_shard = [{trial.case.point_key for trial in order(cases, 1, 0, (2, 2), (number, 2))} for number in (1, 2)]
    assert not of_shard[0] & of_shard[1]
    assert of_shard[0] | of_shard[1] == {trial.case.point_key for trial in order(cases, 1, 0, (2, 2))}


CUDA_SUITE = {
    "schema": 1, "name": "lab", "question": "Does it hold?", "workload": "attention",
    "subjects": {"attention": SUBJECTS}, "baseline": {"attention": "eager"},
    "sweep": {"model": ["tiny"], "seq_len": [16, 32], "batch": [1], "dtype": ["bf16"], "pass": [str(Pass.FORWARD)]},
}  # fmt: skip


def test_each_gpu_measures_canaries_of_its_own_and_a_resume_leaves_those_of_others_alone() -> None:
    catalogue = load_catalogue()
    suite = suite_from_data(CUDA_SUITE, catalogue)
    expansion = expand(suite, catalogue, device="cuda", filters=())
    options = RunOptions(seed=1, trials=1)
    parts = [Part((number, 2), canary_arm(f"GPU-{number}")) for number in (1, 2)]
    plans = [make_plan(suite, expansion, options, part=part) for part in parts]
    canaries = [[trial for trial in plan.trials if is_canary(trial.case, "attention")] for plan in plans]
    assert [{trial.arm for trial in found} for found in canaries] == [{part.canary_arm} for part in parts]
    assert {trial.case.key for trial in canaries[0]} == {trial.case.key for trial in canaries[1]}
    keys = [trial.key for plan in plans for trial in plan.trials]
    assert len(keys) == len(set(keys)) == 2 * len(canaries[0]) + 4

    theirs = [replace(factories.result("run-1", trial.case), trial=trial) for trial in canaries[1]]
    again, replaced = _start_anew(plans[0], theirs, [row.trial.key for row in theirs], lambda row: False)
    assert replaced == []
    assert again.trials == plans[0].trials


def test_rows_have_shares_of_what_the_canaries_of_their_own_gpu_reached() -> None:
    run, rows = gpu_run()
    one, other = "GPU-1", "GPU-2"
    here = [replace(row, conditions={"gpu_uuid": other if row.case.params.get("seq_len") == 4096 else one}) for row in rows]
    canaries = [row for row in here if is_canary(row.case, "attention")]
    arms = {gpu: canary_arm(gpu) for gpu in (one, other)}
    both = [
        replace(row, id=f"{row.id}-{arm}", trial=replace(row.trial, arm=arm), conditions={"gpu_uuid": gpu})
        for row in canaries
        for gpu, arm in arms.items()
    ]
    cases, reach = gather(run, [*(row for row in here if row not in canaries), *both])
    assert {summary.arm for summary in reach.canaries} == set(arms.values())
    assert all(case.rates.flops and case.rates.flops.measured for case in cases)


def test_ranks_lock_the_gpus_that_they_take_and_a_run_on_another_gpu_only_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = load_catalogue()
    suite = suite_from_data({**CUDA_SUITE, "sweep": {**CUDA_SUITE["sweep"], "world_size": [1, 2]}}, catalogue)  # type: ignore[dict-item]
    expansion = expand(suite, catalogue, device="cuda", filters=())
    plan = make_plan(suite, expansion, RunOptions(seed=1, trials=1, canaries=False))
    monkeypatch.setattr(
        sys.modules["bench.run.rank_devices"], "find_device", lambda choice: replace(find_fake(choice), kind="cuda")
    )
    first, second = (replace(find_fake(f"cuda:{index}"), kind="cuda") for index in (0, 1))
    assert isinstance(first, FakeGpu)
    assert _lock_names(first, plan) == ["gpu-GPU-0", "gpu-GPU-1"]
    assert _lock_names(second, plan) == ["gpu-GPU-1"]


def test_trials_of_several_ranks_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    suite = suite_from_data({**CUDA_SUITE, "sweep": {**CUDA_SUITE["sweep"], "dtype": ["fp32"], "world_size": [1, 2]}}, catalogue)  # type: ignore[dict-item]
    expansion = expand(suite, catalogue, device="cpu", filters=())
    options = RunOptions(seed=1, trials=1, device="cpu", gpus="0,1")
    plan = make_plan(suite, expansion, options)
    gpus = [bench.machine.find_device("cpu")] * 2
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(DeviceError, match=r"several ranks.*--device cuda:0.*--filter world_size=1"):
            execute_on_gpus(plan, suite, gpus, store, options)
        assert store.runs() == []


@pytest.mark.parametrize("text", ["", "one", "0-1", "0,", "-1", "cuda:0"])
def test_what_names_no_gpus_is_refused_with_the_form_it_takes(text: str) -> None:
    with pytest.raises(DeviceError, match=r"`all`, or numbers with commas between, such as 0,1"):
        find_gpus(text)
