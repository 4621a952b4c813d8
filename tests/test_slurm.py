"""A fleet on a real Slurm of one node: shards that are lost or run out of time are seen, measured to their end, and merged."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench.errors import StoreError
from bench.records import RunState
from bench.store import Store
from tests.store.conftest import databases, postgresql  # noqa: F401 - fixtures

ROOT = Path(__file__).parent.parent
SHARDS = 3

SUITE = """
schema: 1
name: fleet
question: Which norm is faster?
workload: rms_norm
subjects: {rms_norm: [eager, torch_native]}
sweep: {model: [tiny], seq_len: [32, 64, 96, 128, 160, 192], batch: [1], dtype: [fp32], pass: [forward]}
protocol: {trials: 4, max_sampling_s: 0.1}
"""
TRIALS = 6 * 2 * 4

CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=5
MinJobAge=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:4
"""


def _two_free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def _until(what: Callable[[], bool], words: str, within_s: float = 120.0) -> None:
    ends = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < ends, f"{words} did not happen within {within_s:g} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of a cluster of one node, which lives as long as the module."""
    for tool in ("slurmctld", "slurmd", "sbatch", "squeue", "scancel"):
        if shutil.which(tool) is None:
            pytest.skip(f"Slurm is not installed here ({tool} not found)")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    controller_port, node_port = _two_free_ports()
    configuration.write_text(
        CONFIGURATION.format(
            host=host, folder=folder, controller_port=controller_port, node_port=node_port, cpus=os.cpu_count() or 1
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}

    def said(*command: str) -> str:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()

    try:
        for command in (["slurmctld", "-f", str(configuration)], ["slurmd", "-f", str(configuration), "-N", host]):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        _until(lambda: said("sinfo", "-h", "-o", "%t") == "idle", "an idle node", 30)
        yield configuration
    finally:
        # Jobs first: a node daemon whose controller is gone ignores every signal but KILL.
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True, check=False)
        _until(lambda: said("squeue", "-h") == "", "an empty queue", 30)
        for name in ("slurmd", "slurmctld"):
            if (file := folder / f"{name}.pid").exists():
                os.kill(int(file.read_text()), signal.SIGTERM)
                time.sleep(0.3)


class Fleet:
    """Submits arrays in a folder of its own and asks after them."""

    def __init__(self, folder: Path, configuration: Path, database: str | None) -> None:
        self.folder = folder
        self.database = database
        self._variables = {
            **os.environ,
            "SLURM_CONF": str(configuration),
            "BENCH": f"{sys.executable} -m bench",
            "PYTHONPATH": str(folder / "source"),
            "FLEET": "night",
            "SHARDS": str(SHARDS),
        }
        if database is not None:
            self._variables["BENCH_DB"] = database
        (folder / "fleet.yaml").write_text(SUITE)
        # A run goes on only with the harness that began it, and ours may be edited while this test runs.
        shutil.copytree(ROOT / "bench", folder / "source" / "bench", ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.folder, env=self._variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def submit(self, array: str) -> str:
        script = str(ROOT / "slurm" / "array.sh")
        return self.run("sbatch", "--parsable", f"--array={array}", script, "fleet.yaml", "--device", "cpu")

    def wait(self, job: str) -> None:
        _until(lambda: self.run("squeue", "-h", "-r", "-j", job, "-o", "%i") == "", f"the end of job {job}", 240)

    def kill(self, job: str, shard: int) -> None:
        """Every process of a task at once, as when its node dies. Another cluster's jobs, for other tests, have the same numbers."""
        ours = {"SLURM_CONF": self._variables["SLURM_CONF"], "SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": str(shard)}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                variables = process.environ()
                if ours.items() <= variables.items():
                    process.kill()

    def missing(self) -> str:
        return self.run(sys.executable, str(ROOT / "slurm" / "missing.py"), "night", str(SHARDS))

    def rows(self, shard: int) -> int:
        """Rows of a shard so far."""
        try:
            with Store.open(self.database or self.folder / f"shards/night/{shard}.db", create=False, read_only=True) as store:
                runs = [run for run in store.runs() if run.label == f"night-{shard}-of-{SHARDS}"]
                return len(store.done(runs[0].id)) if runs else 0
        except StoreError:
            # Nobody has made the tables yet.
            return 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_shards_that_are_lost_or_out_of_time_are_measured_to_their_end_and_merged(
    slurm: Path, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    database = None if kind == "sqlite" else request.getfixturevalue("databases").take()
    fleet = Fleet(tmp_path, slurm, database)
    # Shard 3 is not submitted at all; 1 dies with its node, 2 gets what Slurm sends before the time limit.
    job = fleet.submit("1-2")
    struck: set[int] = set()

    def all_struck() -> bool:
        # They share one device, so whichever is first measures while the other waits.
        for shard in [shard for shard in (1, 2) if shard not in struck and fleet.rows(shard) > 0]:
            struck.add(shard)
            if shard == 1:
                fleet.kill(job, shard)
            else:
                fleet.run("scancel", "--batch", "--signal=TERM", f"{job}_{shard}")
        return struck == {1, 2}

    _until(all_struck, "a row of either shard")
    fleet.wait(job)
    assert fleet.missing() == "1,2,3"

    fleet.wait(fleet.submit(fleet.missing()))
    logs = "\n".join(path.read_text() for path in tmp_path.glob("bench-*.log"))
    assert fleet.missing() == "", logs

    merged = database
    if merged is None:
        merged = str(tmp_path / "merged.db")
        fleet.run(
            sys.executable, "-m", "bench", "db", "merge", *map(str, sorted((tmp_path / "shards/night").iterdir())), "--db", merged
        )
    with Store.open(merged) as store:
        runs = store.runs(suite="fleet")
        assert [run.state for run in runs] == [RunState.FINISHED] * SHARDS
        rows = store.results([run.id for run in runs])
        assert len(rows) == len({(row.case.key, row.trial.index) for row in rows}) == TRIALS
        assert store.check() == []


def test_an_array_that_does_not_start_at_1_is_refused(tmp_path: Path) -> None:
    variables = {**os.environ, "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_ID": "0"}
    done = subprocess.run([ROOT / "slurm/array.sh"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the array starts at 1" in done.stderr
