"""What a published record says, and what it does not say."""

from __future__ import annotations

import dataclasses
import gzip
import lzma
import time
from pathlib import Path
from typing import Any

import pytest

from bench.judge.shared_gpu import computed_beside
from bench.records import Check, Proof, Result, RevisionItem, Run, Status, dump
from bench.store import Store, publish
from bench.store.anonymous import anonymous_result, anonymous_run, same_once_anonymous
from bench.store.public_text import path_name, short_command, short_paths
from tests import factories


@pytest.fixture(autouse=True)
def jane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of somebody called jane."""
    monkeypatch.setenv("USER", "jane")
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setenv("MY_TOKEN", "sesame-open")
    monkeypatch.setattr("platform.node", lambda: "lovelace.lab.example")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/jane", "~"),
        ("at /home/jane/a/x.py:7: warning", "at x.py:7: warning"),
        ("error:/srv/secret/x.py", "error:x.py"),
        ("file:///home/jane/secret/x.py", "file://x.py"),
        ("sqlite:////home/jane/b.db", "sqlite://b.db"),
        ("File '/home/jane/my secret/x y.py' broke", "File 'x y.py' broke"),
        ("in /srv/my secret/x.py", "in x.py"),
        ("../../home/jane", "~"),
        ("../../home/jane/x.py", "x.py"),
        ("see ../secret/x.py", "see x.py"),
        ("see ~/x", "see x"),
        ("see ~jane/secret/x", "see x"),
        ("-I/srv/secret/include gcc -L/srv/secret/lib", "-I/srv/secret/include gcc -Llib"),
        ("A=/srv/secret/a:/srv/secret/b", "A=a:b"),
        ("/srv/secret/site-packages/torch/nn/x.py", "torch/nn/x.py"),
        ("/srv/secret/stepbench/bench/stats.py", "bench/stats.py"),
        ("/srv/tests/secret/x.py", "x.py"),
        ("home/jane/x", "x"),
        ("tokens/s and 3 / 4, and/or a//b, suites/attention.yaml", "tokens/s and 3 / 4, and/or a//b, suites/attention.yaml"),
        ("https://github.com/org/repository/issues/7", "https://github.com/org/repository/issues/7"),
    ],
)
def test_a_path_is_cut(text: str, shown: str) -> None:
    assert short_paths(text) == shown
    assert short_paths(shown) == shown


def test_a_path_that_is_all_of_a_text_may_hold_anything() -> None:
    assert path_name("/srv/my: 'secret'/a b.yaml") == "a b.yaml"
    assert path_name("suites/attention.yaml") == "suites/attention.yaml"


def test_the_words_of_a_command_are_cut_one_by_one() -> None:
    command = "bench run ../secret/a.yaml --plugin '/srv/my secret, old/x y.py' --set 'a=/srv/se cret/b' --filter seq_len=4"
    assert short_command(command, short_paths) == "bench run a.yaml --plugin 'x y.py' --set a=b --filter seq_len=4"


def hostile_run(**changes: Any) -> Run:
    made = factories.run(
        suite_file="/home/jane/my secret/a.yaml",
        suite_data={"schema": 1, "name": "attention", "under_test": ["torch", "../jane/kernels", "/srv/secret/x.py"]},
        options={
            "suite_folder": "/home/jane/work",
            "suite_file": "../../home/jane/secret/a.yaml",
            "label": "janes-secret",
            "plugins": ["/home/jane/my secret/mine.py"],
            "sets": ["note=password: foo12345"],
        },
        question="Is /home/jane/secret/x.py faster?",
        command="bench run '/home/jane/my secret/a.yaml' --set note=sesame-open",
        label="janes-secret",
        revision=(RevisionItem("torch", "package", "2.11"), RevisionItem("jane-secret/kernels", "path", None, "0" * 40, False)),
    )
    return dataclasses.replace(made, **changes)


def hostile_result(run: Run, **changes: Any) -> Result:
    made = factories.result(
        run.id,
        status=Status.FAILED,
        reason="File '/home/jane/my secret/x.py' broke on lovelace",
        log="jane@lovelace.lab.example: ~/secret/x.py ../../home/jane, then --token sesame-open\n",
        environment=factories.environment(kernel="6.1.0-jane+", note="lib:/home/jane/secret/x.so"),
        measurements=(factories.measurement(note="as /home/jane/secret/x.py says"),),
        checks=(Check("out", "small", None, None, None, False, detail="file:///home/jane/secret/x"),),
        proof=Proof("unknown", ("aten::bmm",), detail="see /home/jane/secret/log"),
        command="bench run ~/secret/a.yaml",
        conditions={
            "gpu_uuid": "GPU-60850100-ca60-f302-b118-74ae106ea6a8",
            "note": "GPU-60850100-ca60-f302-b118-74ae106ea6a8 of jane",
            "busy_processes": [{"name": "janes-game", "cores": 1.0, "command": "secret"}, "janes-game", 7],
        },
    )
    return dataclasses.replace(made, **changes)


def test_the_bytes_of_a_published_file_name_nobody_and_no_folder(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        run = hostile_run()
        store.add_run(run)
        row = hostile_result(run)
        store.add_result(row)
        store.exclude(row.id, "jane looked into /home/jane/secret")
        store.add_result(factories.result(run.id, index=1))
        files = publish(store, [run], tmp_path / "out").files
    for path in files:
        data = path.read_bytes()
        text = {".gz": gzip.decompress, ".xz": lzma.decompress}[path.suffix](data).decode()
        for word in (
            "jane",
            "secret/",
            "my secret",
            "janes-secret",
            "lovelace",
            "sesame",
            "foo12345",
            "60850100",
            "game",
            "/home",
            "/srv",
        ):
            assert word not in text.lower(), (path.name, word)


def test_what_was_measured_stays_exactly() -> None:
    row = hostile_result(hostile_run())
    shown = anonymous_result(row)
    assert shown.trial == row.trial
    assert shown.case.key == row.case.key
    assert [m.samples for m in shown.measurements] == [m.samples for m in row.measurements]
    assert shown.environment.hard == row.environment.hard
    assert shown.environment.soft["kernel"] == "6.1.0"
    assert (shown.id, shown.run_id, shown.status, shown.cost) == (row.id, row.run_id, row.status, row.cost)
    assert shown.conditions["busy_processes"] == [{"name": "other", "cores": 1.0}, "other", 7]


def test_a_run_is_named_by_the_last_parts_of_its_paths() -> None:
    shown = anonymous_run(hostile_run())
    assert shown.suite_file == "a.yaml"
    assert shown.suite_data["under_test"] == ["torch", "kernels", "x.py"]
    assert [item.name for item in shown.revision] == ["torch", "kernels"]
    assert shown.label is None
    assert shown.options == {"suite_file": "a.yaml", "plugins": ["mine.py"], "sets": ["note=password: [secret]"]}
    assert shown.question == "Is x.py faster?"


@pytest.mark.parametrize("entries", [5, "janes-game", None, {"name": "janes-game", "cores": 2}])
def test_conditions_of_another_shape_do_no_harm(entries: Any) -> None:
    shown = anonymous_result(factories.result(conditions={"busy_processes": entries, "gpu_uuid": 7}))
    assert "game" not in str(dump(shown))


def test_whether_who_was_on_the_gpu_was_busy_outlives_the_names() -> None:
    busy = [{"name": "cc1plus", "cores": 1.0}]
    idle = factories.result(conditions={"busy_processes": busy, "other_compute_processes": ["python3"]})
    beside = factories.result(conditions={"busy_processes": busy, "other_compute_processes": ["cc1plus"]})
    for row, computed in ((idle, False), (beside, True)):
        shown = anonymous_result(row)
        assert computed_beside(shown.conditions) is computed_beside(row.conditions) is computed
        assert computed_beside(anonymous_result(shown).conditions) is computed
        assert "python3" not in str(shown.conditions)
        assert "cc1plus" not in str(shown.conditions)
        former = dataclasses.replace(shown, conditions={**shown.conditions, "other_compute_processes": ["other"]})
        assert same_once_anonymous(row, former)


def test_what_is_published_once_more_stays_as_it_is() -> None:
    run = hostile_run()
    row = hostile_result(run)
    assert anonymous_run(anonymous_run(run)) == anonymous_run(run)
    assert anonymous_result(anonymous_result(row)) == anonymous_result(row)


def test_only_the_published_form_of_a_row_is_the_same_row() -> None:
    row = hostile_result(hostile_run())
    shown = anonymous_result(row)
    assert same_once_anonymous(row, shown)
    assert same_once_anonymous(shown, row)
    assert not same_once_anonymous(row, dataclasses.replace(shown, duration_s=9.0))
    assert not same_once_anonymous(dataclasses.replace(shown, duration_s=9.0), row)


@pytest.mark.parametrize("published_first", [False, True])
def test_a_published_file_and_the_originals_meet_without_conflict(tmp_path: Path, published_first: bool) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        run = hostile_run()
        store.add_run(run)
        store.add_results([hostile_result(run), factories.result(run.id, index=1)])
        store.export_jsonl(tmp_path / "original.jsonl")
        published, _summary = publish(store, [run], tmp_path / "out").files
    order = [tmp_path / "original.jsonl", published]
    with Store.open(tmp_path / "other.db") as other:
        first, second = (other.import_file(path) for path in (reversed(order) if published_first else order))
    assert (first.runs_new, first.results_new) == (1, 2)
    assert (second.runs_new, second.runs_same, second.results_new, second.results_same, second.conflicts) == (0, 1, 0, 2, ())


@pytest.mark.parametrize("piece", ["/", "./", "../", "a-", "/a b", "~a/", "'/", "password", "--token "])
def test_a_hostile_log_costs_time_in_proportion_to_its_length(piece: str) -> None:
    def cost_s(length: int) -> float:
        row = factories.result(status=Status.FAILED, reason="no", log=(piece * length)[:length])
        started = time.process_time()
        anonymous_result(row)
        return time.process_time() - started

    cost_s(1000)
    # Eight times the text: a quadratic search would cost 64 times as much. Half a second covers the noise of a busy machine.
    assert cost_s(64 * 1024) < 24 * cost_s(8 * 1024) + 0.5
