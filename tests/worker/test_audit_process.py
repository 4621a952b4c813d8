"""What a probe does to a process: nothing that the script or who started it could see, but its end after so many steps."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.audit.findings.ending import find
from bench.audit.whole import put_together
from bench.machine.secrets import MASK, scrub_data
from bench.probing import SHIM, failures, probe_environment, read_reports
from bench.records import dump
from tests.worker.auditing import BARE, Ran, audited, plainly, python, settings

TOKEN = "hf_abcdefghijklmnopqrstuv"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """A script that would save what it has in its `finally`, with workers that load its data; and where it would."""
    folder = tmp_path_factory.mktemp("stopped")
    saved = folder / "model.pt"
    words = ("--steps", "60", "--workers", "2", "--checkpointed", "2", "--saves", str(saved))
    return audited(folder / "out", python("bare.py", *words)), saved


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, subprocess.CompletedProcess[str]]:
    """A script that raises after its seventh step, with and without a probe."""
    command = python("bare.py", "--raise-at", "7", "--api-key", TOKEN)
    variables = {"PYTHONWARNINGS": "default"}  # a warning of torch about us would be no output of the script's
    return audited(tmp_path_factory.mktemp("raised") / "out", command, steps=20, variables=variables), plainly(command, variables)


def test_the_process_ends_with_status_0_after_the_steps_that_were_asked_for(stopped: tuple[Ran, Path]) -> None:
    ran, _ = stopped
    assert ran.status == 0, ran.err
    assert ran.report.ended.how == "stopped"
    assert ran.report.steps is not None
    assert ran.report.steps.seen == 8
    assert ran.out.splitlines() == [line for line in ran.out.splitlines() if line.startswith("step ")]
    assert len(ran.out.splitlines()) == 7  # the eighth says nothing any more: its update was the last that happened


def test_nothing_is_saved_when_the_probe_ends_a_process(stopped: tuple[Ran, Path]) -> None:
    assert not stopped[1].exists()


def test_only_undisturbed_steps_are_timed(stopped: tuple[Ran, Path]) -> None:
    steps = stopped[0].report.steps
    assert steps is not None
    assert (len(steps.warmup_s), len(steps.profiled_s), len(steps.timed_s)) == (2, 2, 3)
    assert all(value > 0 for value in (*steps.warmup_s, *steps.profiled_s, *steps.timed_s))
    assert steps.counted_by == "AdamW"


def test_of_a_checkpointed_decoder_it_tells_how_many_layers_run_again(stopped: tuple[Ran, Path]) -> None:
    report = stopped[0].report
    assert report.checkpointing is not None
    assert (report.checkpointing.layers, report.checkpointing.recomputed, report.checkpointing.reentrant) == (4, 2, False)
    (attention,) = report.attention
    assert (attention.kind, attention.modules, attention.calls) == ("sdpa_flash", 4, 6)
    assert attention.names == ("aten::_scaled_dot_product_flash_attention_for_cpu",)
    assert 0 < attention.share < 1
    assert {(row.class_name, row.role, row.instances, row.called) for row in report.modules} >= {
        ("CausalSelfAttention", "attention", 4, 4),
        ("LayerNorm", "norm", 4, 4),
        ("Block", "layer", 4, 4),
        ("Linear", "head", 1, 1),
    }


def test_the_causes_of_a_peak_add_up_to_it(stopped: tuple[Ran, Path]) -> None:
    memory = stopped[0].report.memory
    assert memory is not None
    causes = {cause.cause: cause.bytes for cause in memory.causes}
    assert sum(causes.values()) == memory.peak_bytes == max(memory.phase_peaks.values())
    assert memory.phase_peaks[memory.phase] == memory.peak_bytes
    assert causes["parameters"] == 38080 * 4
    assert causes["optimizer_states"] == 2 * 38080 * 4 + 4 * 43  # and the count of steps of each parameter
    assert causes["checkpoints"] == 4096
    assert set(memory.phase_peaks) >= {"forward", "loss", "backward", "optimizer"}


def test_loading_by_workers_is_seen(stopped: tuple[Ran, Path]) -> None:
    data = stopped[0].report.data
    assert data is not None
    assert data.workers == 2
    assert data.wait_share is not None
    assert 0 < data.wait_share < 1


def test_a_crash_of_the_script_is_its_own(raised: tuple[Ran, subprocess.CompletedProcess[str]]) -> None:
    ran, plain = raised
    assert ran.status == plain.returncode == 1
    assert (ran.out, ran.err) == (plain.stdout, plain.stderr)
    ended = ran.report.ended
    assert (ended.how, ended.error_type, ended.out_of_memory) == ("raised", "ValueError", False)
    assert ended.message == f"the data is spoilt: {TOKEN}"
    assert ran.report.steps is not None
    assert ran.report.steps.seen == 7


def test_what_the_script_was_called_with_is_not_reported(raised: tuple[Ran, subprocess.CompletedProcess[str]]) -> None:
    report = dump(raised[0].report)
    assert report["script"] == "bare.py"
    assert TOKEN not in str(scrub_data(report))
    assert MASK in scrub_data(report)["ended"]["message"]
    del report["ended"]
    assert TOKEN not in str(report)


def test_a_crash_within_a_profiled_step_is_the_scripts_own_too(tmp_path: Path) -> None:
    ran = audited(tmp_path / "out", python("bare.py", "--raise-at", "3"))
    assert ran.status == 1
    assert ran.err.endswith("ValueError: the data is spoilt: None\nand more\n")
    assert ran.report.ended.how == "raised"
    assert ran.report.attention[0].kind == "sdpa_flash"
    assert ran.report.memory is None
    assert ran.report.notes == ("the script ended before both profiled steps were over",)


def test_a_script_that_ends_earlier_keeps_its_status_and_its_surroundings(tmp_path: Path) -> None:
    """It has a package of our name and a `sitecustomize` of its own."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "bench.py").write_text("MINE = 'a bench of theirs'\n")
    (theirs / "sitecustomize.py").write_text("import os\nos.environ['WHO'] = 'theirs'\n")
    script = theirs / "start.py"
    script.write_text(
        "import runpy, sys, torch, bench\n"
        "import sitecustomize\n"
        f"print(bench.MINE, {str(SHIM)!r} in sys.path, sitecustomize.__file__)\n"
        f"runpy.run_path({BARE!r}, run_name='__main__')\n"
    )
    ran = audited(
        tmp_path / "out",
        [sys.executable, str(script), "--steps", "7", "--status", "3"],
        steps=20,
        variables={"PYTHONPATH": str(theirs)},
    )
    assert ran.status == 3, ran.err
    assert ran.out.splitlines()[0] == f"a bench of theirs False {theirs / 'sitecustomize.py'}"
    assert ran.out.splitlines()[-1] == "trained theirs"
    assert ran.report.ended.how == "finished"
    assert ran.report.steps is not None
    assert (ran.report.steps.seen, ran.report.steps.asked, len(ran.report.steps.timed_s)) == (7, 20, 2)


def test_a_ctrl_c_is_the_scripts_and_whenever_it_is_killed_what_was_found_lies_there(tmp_path: Path) -> None:
    """Nothing that is killed writes any more: what it leaves is what can be read beforehand."""
    folder = tmp_path / "out"
    folder.mkdir()
    process = subprocess.Popen(
        python("bare.py", "--wait-at", "6"),
        env=probe_environment(folder, 20, settings()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while process.stdout.readline() != "waiting\n":
        assert process.poll() is None
    (report,) = read_reports(folder)
    assert report.ended.how == "running"
    assert report.model is not None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    (report,) = read_reports(folder)
    assert report.ended.how == "interrupted"


def test_a_python_that_the_probe_cannot_start_in_says_so(tmp_path: Path) -> None:
    """Here: a torch that has nothing of torch."""
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")
    folder = tmp_path / "out"
    folder.mkdir()
    variables = probe_environment(folder, 8, settings({"PYTHONPATH": str(tmp_path)}))
    done = plainly([sys.executable, "-c", "import torch; print(torch.__version__)"], variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    (failure,) = failures(folder)
    assert "Error" in failure
    assert read_reports(folder) == []


def test_a_sitecustomize_that_fails_fails_as_without_a_probe_and_the_probe_begins(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")
    (tmp_path / "out").mkdir()
    surroundings = settings({"PYTHONPATH": str(tmp_path)})
    command = [sys.executable, "-c", "import torch; print(torch.__version__)"]
    done, plain = plainly(command, probe_environment(tmp_path / "out", 8, surroundings)), plainly(command, surroundings)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (0, "0\n")
    assert "no_such_module" in plain.stderr
    assert done.stderr == plain.stderr
    assert len(failures(tmp_path / "out")) == 1


def test_a_process_without_torch_knows_nothing_of_a_probe(tmp_path: Path) -> None:
    look = "import sys; print([name for name in sys.modules if name.partition('.')[0] == 'bench'])"
    done = plainly([sys.executable, "-c", look], probe_environment(tmp_path, 8, settings()))
    assert done.stdout == "[]\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_leaves_without_an_end_is_told_to_have_been_seen(tmp_path: Path) -> None:
    """`os._exit` runs nothing of ours; nor does a signal that kills."""
    ran = audited(tmp_path / "out", [sys.executable, "-c", "import os, torch; os._exit(0)"])
    audit = put_together(ran.reports, command="python train.py", status=ran.status, ended="exit status 0", steps_asked=8)
    left, none = find(audit)
    assert left.text == "the script died without a word; the command ended with exit status 0"
    assert none.text == "no update of weights was seen: no torch optimizer made a step"
