"""`bench claims`: which rows it takes, what it answers in each format, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.claims import claims as command
from bench.errors import SelectionError, StoreError
from bench.records import Cost, Environment, Json, Result
from bench.store import Store
from tests import factories

Call = Callable[..., tuple[int, str]]

CLAIMS = """schema: 1
name: some
about: Is it so?
defaults:
  source: a page
  made_on: H100 SXM
  configuration: as there
  kind: figure
  unit: ms
  tolerance: [-0.1, 0.1]
  measured_by: {suite: attention, profile: published, metric: time_s, of: eager, where: {seq_len: 128}}
claims:
  - {id: right, says: 10 ms, expected: 10}
  - {id: wrong, says: 5 ms, expected: 5}
  - {id: absent, says: 1 ms, expected: 1, measured_by: {where: {seq_len: 4096}}}
  - {id: sum, says: 32 GB, unit: GB, expected: 32, computed_by: {formula: bytes_each, arguments: {parameters: 8.0e9, each: 4}}}
"""


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command over a folder of four claims and a database with three rows of one case."""
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "some.yaml").write_text(CLAIMS)
    run = factories.run(label="nightly")
    with Store.open(tmp_path / "rows.db") as store:
        store.add_run(run)
        for index in range(3):
            store.add_result(_row(run.id, index))

    def answer(*words: str, db: str = "rows.db") -> tuple[int, str]:
        capsys.readouterr()
        code = command.main(["--claims", str(folder), "--db", str(tmp_path / db), *words], standalone_mode=False)
        return code, capsys.readouterr().out

    return answer


def _row(run_id: str, index: int) -> Result:
    environment = Environment({"device": "cuda", "gpu_model": "NVIDIA H200"}, {})
    case = factories.case(seq_len=128, device="cuda", timer="events")
    measurements = (factories.measurement("time_s", (0.0100 + index * 1e-5,)),)
    return factories.result(
        run_id,
        case,
        index=index,
        environment=environment,
        measurements=measurements,
        cost=Cost(tokens=128),
        conditions={"gpu_uuid": "GPU-a"},
    )


def test_what_differs_decides_the_exit_code_and_each_claim_says_why(call: Call) -> None:
    code, out = call()
    assert code == 1
    assert "Of 4 claims 3 can be judged here: 2 reproduced (1 by arithmetic), 1 not reproduced, 0 can't be told" in out
    assert "bench run suites/attention.yaml --profile published  # 1 claim" in out


def test_outside_a_terminal_no_reason_is_cut(call: Call, tmp_path: Path) -> None:
    """A file of claims that are all absent, at a point that takes many words."""
    (tmp_path / "far").mkdir()
    where = "{seq_len: 4096, model: llama-3-8b, batch: 16, mask: causal, dropout: 0.1, dtype: bf16, pass: forward_backward}"
    (tmp_path / "far" / "some.yaml").write_text(CLAIMS.replace("{seq_len: 4096}", where))
    code, out = call("--claims", str(tmp_path / "far"), "--only", "absent")
    assert code == 3
    assert "not measured: no row of eager of suite attention at " in out
    assert "dtype=bf16, pass=forward_backward\n" in out


def test_a_busy_neighbour_that_only_an_excluded_row_tells_of_withholds_times_all_the_same(call: Call, tmp_path: Path) -> None:
    run = factories.run(label="crowded")
    beside: dict[str, Json] = {"gpu_uuid": "GPU-a", "other_compute_processes": ["python3"]}
    with Store.open(tmp_path / "crowded.db") as store:
        store.add_run(run)
        for index in range(4):
            busy: dict[str, Json] = {"busy_processes": [{"name": "python3", "cores": 0.7}]} if index == 3 else {}
            store.add_result(replace(_row(run.id, index), conditions=beside | busy, id=f"row-{index}"))
        store.exclude("row-3", "the fan was off")
    code, out = call("--only", "right", "--json", db="crowded.db")
    (finding,) = json.loads(out)["claims"]
    assert code == 3
    assert finding["why"] == "eager has no number that counts: other processes computed on its GPU in 3 of 3 trials"
    assert finding["ours"] is None


def test_an_excluded_row_answers_no_claim(call: Call, tmp_path: Path) -> None:
    with Store.open(tmp_path / "rows.db") as store:
        (left, *_) = store.results([run.id for run in store.runs()])
        store.exclude(left.id, "the fan was off")
    (finding,) = json.loads(call("--only", "right", "--json")[1])["claims"]
    assert finding["ours"]["n"] == 2
    assert left.id not in finding["ours"]["rows"]


def test_claims_can_be_asked_for_one_by_one_and_exit_codes_follow(call: Call) -> None:
    assert call("--only", "right")[0] == 0
    assert call("--only", "sum")[0] == 0
    assert call("--only", "absent")[0] == 3
    with pytest.raises(SelectionError, match="did you mean 'right'"):
        call("--only", "rigth")


def test_json_holds_every_number_row_and_command(call: Call) -> None:
    code, out = call("--json")
    answer = json.loads(out)
    assert answer["exit_code"] == code
    right, wrong, absent, computed = answer["claims"]
    assert right["verdict"] == "reproduced"
    assert right["ours"]["n"] == len(right["ours"]["rows"]) == 3
    assert right["ours"]["interval"][0] < right["ours"]["value"] < right["ours"]["interval"][1]
    assert (wrong["verdict"], wrong["agrees_to"]) == ("not reproduced", pytest.approx(0.0055))
    assert absent["ours"] is None
    assert absent["measure"] == "bench run suites/attention.yaml --profile published --filter seq_len=4096"
    assert (computed["ours"]["how"], computed["ours"]["n"], computed["ours"]["interval"]) == ("computed", None, None)


def test_markdown_and_a_page_are_written_to_files(call: Call, tmp_path: Path) -> None:
    call("--format", "markdown", "-o", str(tmp_path / "claims.md"))
    assert (tmp_path / "claims.md").read_text().startswith("## Of 4 claims")
    call("--format", "html", "-o", str(tmp_path / "claims.html"))
    assert (tmp_path / "claims.html").read_text().startswith("<!doctype html>")


def test_runs_that_are_named_are_the_only_ones_that_count(call: Call) -> None:
    assert call("nightly", "--only", "right")[0] == 0
    with pytest.raises(SelectionError):
        call("another", "--only", "right")


def test_published_files_answer_without_a_database(call: Call, tmp_path: Path) -> None:
    with Store.open(tmp_path / "rows.db") as store:
        store.export_jsonl(tmp_path / "published.jsonl.xz")
    (tmp_path / "shared" / "nvidia-h200").mkdir(parents=True)
    (tmp_path / "published.jsonl.xz").rename(tmp_path / "shared" / "nvidia-h200" / "attention.jsonl.xz")
    code, out = call("--published", str(tmp_path / "shared"), "--only", "right", "--json", db="none.db")
    assert code == 0
    assert json.loads(out)["claims"][0]["ours"]["n"] == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(SelectionError, match="no published results"):
        call("--published", str(tmp_path / "empty"))


def test_without_a_database_the_published_files_are_suggested(call: Call) -> None:
    with pytest.raises(StoreError, match="bench claims --published results/published"):
        call(db="none.db")
