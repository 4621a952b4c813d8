"""Who measured where is in no output once it was taken out, and equal things stay equal."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex

import pytest

from bench.records import Result, Run, dump
from bench.report import render_markdown, render_page, rows_csv, rows_json
from bench.report.outputs.mail import Headers, render_mail
from bench.report.recompute.verify import verify_page
from bench.report.trust.redact import redacted
from tests import factories
from tests.store.test_anonymous import hostile_result, hostile_run

NOW = "2026-01-02T04:00:00+00:00"
RUN_ID = "01a22938-6d2b-7fe6-8fd5-e0fe82be221f"
OTHER_ID = "01a22951-6c30-7490-8f98-493264faa208"
WORDS = (
    *("jane", "bob.smith", "lovelace", "lab.example", "node7", "corp.example", "sesame", "janes-secret", "/home", "/srv", "/data"),
    *("my secret", "60850100", RUN_ID[:8], OTHER_ID[:8], "game"),
)


@pytest.fixture(autouse=True)
def jane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of somebody called jane."""
    monkeypatch.setenv("USER", "jane")
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setenv("MY_TOKEN", "sesame-open")
    monkeypatch.setattr("platform.node", lambda: "lovelace.lab.example")


def secretive() -> tuple[list[Run], list[Result]]:
    run = hostile_run(id=RUN_ID, command="bench run /home/jane/a.yaml --label janes-secret")
    other = factories.run(id=OTHER_ID, label="bob.smith")
    rows = [
        dataclasses.replace(hostile_result(run), id="01a22938-aaaa-7fe6-8fd5-e0fe82be221f"),
        factories.result(
            RUN_ID, index=1, id="01a22938-bbbb-7fe6-8fd5-e0fe82be221f",
            log=f"bob.smith@corp.example.org said: see {RUN_ID}, /data/jane/x.txt and GPU-60850100-ca60-f302-b118-74ae106ea6a8\n",
            conditions={"gpu_uuid": "GPU-60850100-ca60-f302-b118-74ae106ea6a8", "note": "smith and bob.smith at node7.corp.example.org"},
            command=f"bench run x.yaml --label janes-secret --resume {RUN_ID}",
        ),
        factories.result(
            OTHER_ID, id="01a22951-aaaa-7fe6-8fd5-e0fe82be221f",
            environment=factories.environment(note="~jane/x node7.corp.example.org"),
        ),
        factories.result(OTHER_ID, factories.case("flex"), id="01a22951-bbbb-7fe6-8fd5-e0fe82be221f"),
    ]  # fmt: skip
    rows.append(dataclasses.replace(rows[0], id="01a22938-cccc-7fe6-8fd5-e0fe82be221f", trial=dataclasses.replace(rows[0].trial, index=2),
                                    reason="mail root@node7.corp.example.org"))  # fmt: skip
    return [run, other], rows


def test_no_output_holds_a_name_a_folder_or_an_id() -> None:
    runs, rows = redacted(*secretive())
    page = render_page(runs, rows, now=NOW)
    outputs = {
        "html": page,
        "markdown": render_markdown(runs, rows),
        "json": json.dumps(rows_json(runs, rows)),
        "csv": rows_csv(runs, rows),
        "eml": render_mail(runs, rows, "<page>", None, Headers(), now=NOW, name="a.html").decode(),
        "records": json.dumps([dump(record) for record in (*runs, *rows)]),
    }
    for name, text in outputs.items():
        for word in WORDS:
            assert word not in text.lower(), (name, word)
        assert not re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text), name
        assert not re.search(r"[\w.]+@(?!stepbench\.invalid)[\w-]+\.[\w.]+", text), name
    assert verify_page(page).agrees


def test_equal_things_have_equal_words_and_different_ones_do_not() -> None:
    runs, rows = redacted(*secretive())
    assert [run.id for run in runs] == ["run-1", "run-2"]
    assert [run.label for run in runs] == ["label-1", "label-2"]
    assert [row.run_id for row in rows] == ["run-1", "run-1", "run-2", "run-2", "run-1"]
    assert [row.id for row in rows] == [f"result-{number}" for number in range(1, 6)]
    assert {row.conditions.get("gpu_uuid") for row in rows if "gpu_uuid" in row.conditions} == {"gpu-1"}
    assert rows[1].command == "bench run x.yaml --label label-1 --resume run-1"
    host = re.search(r"host-\d", str(rows[2].environment.soft["note"]))
    assert host
    assert host[0] in str(rows[1].conditions["note"])


def test_what_was_measured_and_the_same_call_again_stay_the_same() -> None:
    runs, rows = secretive()
    shown, lines = redacted(runs, rows)
    assert [row.case.key for row in lines] == [row.case.key for row in rows]
    assert [[m.samples for m in row.measurements] for row in lines] == [[m.samples for m in row.measurements] for row in rows]
    assert (shown, lines) == redacted(runs, rows)


def test_a_label_that_is_also_a_word_of_the_records_is_replaced_where_it_is_a_label_only() -> None:
    run = factories.run(label="forward", command="bench run a.yaml --label forward")
    (shown,), (row,) = redacted([run], [factories.result(run.id)])
    assert (shown.label, shown.command) == ("label-1", "bench run a.yaml --label label-1")
    assert row.case.pass_ == "forward"


@pytest.mark.parametrize("label", ["acme-jane-final", "/srv/acme/final", "lovelace acme"])
def test_a_label_goes_whole_though_a_name_or_a_folder_is_in_it(label: str) -> None:
    run = factories.run(label=label, command=shlex.join(["bench", "run", "a.yaml", "--label", label]))
    (shown,), _ = redacted([run], [factories.result(run.id)])
    assert shown.command == "bench run a.yaml --label label-1"


@pytest.mark.parametrize("user", ["failed", "seed", "case", "pass"])
def test_a_user_called_like_a_word_of_the_records_breaks_nothing(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", user)
    run = factories.run()
    assert redacted([run], [factories.result(run.id)])[1][0].case.workload == "attention"
