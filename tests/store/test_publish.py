"""Published results: what lies where, and that a repository stays light."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from bench.errors import SelectionError, StoreError
from bench.records import Status
from bench.store import Store, device_folder, file_word, publish
from tests import factories


def filled(store: Store, suite: str = "attention", *, gpu: str = "NVIDIA H200", seq_len: int = 128) -> str:
    run = factories.run(suite=suite)
    store.add_run(run)
    environment = factories.environment()
    on_gpu = type(environment)(hard={"device": "cuda", "gpu_model": gpu}, soft=environment.soft)
    store.add_result(factories.result(run.id, factories.case(seq_len=seq_len), environment=on_gpu))
    return run.id


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
        ("Intel(R) Xeon(R) CPU (cpu family 6, model 85)", "intel-r-xeon-r-cpu-cpu-family-6-model-85"),
        ("../../etc", "etc"),
        ("\N{ROCKET}", "device"),
    ],
)
def test_a_device_has_one_folder_whatever_its_name_holds(model: str, folder: str) -> None:
    assert device_folder(model) == folder


def test_a_hostile_suite_name_stays_in_the_folder() -> None:
    assert "/" not in file_word("../../etc/passwd")
    assert file_word("") == "suite"


def test_runs_of_one_suite_on_one_device_share_their_files_and_replace_what_was_there(store: Store, tmp_path: Path) -> None:
    first, second, other = filled(store), filled(store, seq_len=256), filled(store, gpu="NVIDIA H100 PCIe")
    folder = tmp_path / "published"
    runs = [store.find_run(text) for text in (first, second, other)]
    made = publish(store, runs, folder)
    names = [
        f"{device}/attention.{kind}" for device in ("nvidia-h200", "nvidia-h100-pcie") for kind in ("jsonl.xz", "summary.json.gz")
    ]
    assert [path.relative_to(folder).as_posix() for path in made.files] == names
    assert len(json.loads(gzip.decompress((folder / names[1]).read_bytes()))) == 2
    assert made.total_bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    again = publish(store, runs[:1], folder)
    assert len(json.loads(gzip.decompress((folder / names[1]).read_bytes()))) == 1
    assert again.total_bytes < made.total_bytes
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".gz", ".xz"}


def test_the_same_runs_give_the_same_bytes_in_whatever_order_and_however_often_they_are_named(store: Store, tmp_path: Path) -> None:
    runs = [store.find_run(filled(store, seq_len=length)) for length in (128, 256)]
    before = [path.read_bytes() for path in publish(store, runs, tmp_path / "published").files]
    for named in (runs[::-1], [*runs, runs[0]]):
        assert [path.read_bytes() for path in publish(store, named, tmp_path / "published").files] == before


def test_what_would_be_too_much_is_refused_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    run = store.find_run(filled(store))
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "report.html").write_bytes(b"x" * 3 * 2**20)
    with pytest.raises(StoreError, match=r"would take 3\.0 MiB, and 3 MiB are the limit"):
        publish(store, [run], folder)
    assert [path.name for path in folder.iterdir()] == ["report.html"]


def test_a_run_without_rows_cannot_be_published(store: Store, tmp_path: Path) -> None:
    run = factories.run()
    store.add_run(run)
    with pytest.raises(SelectionError, match="no rows"):
        publish(store, [run], tmp_path)


def test_what_is_published_says_nothing_of_the_machines_owner(store: Store, tmp_path: Path) -> None:
    run = factories.run(
        options={"suite_folder": "/home/hopper/work", "plugins": ["/home/hopper/secret/mine.py"], "profile": "quick"}
    )
    store.add_run(run)
    environment = factories.environment(kernel="6.1.0-hopper-host+", note="/home/hopper/lib/x.so")
    rows = [
        factories.result(
            run.id,
            factories.case(seq_len=128 * (number + 1)),
            environment=environment,
            status=status,
            reason=reason,
            log="/home/hopper/site/pkg/mod.py:7: warning",
            conditions={"gpu_uuid": "GPU-1", "busy_processes": [{"name": "hoppers-game", "cores": 1.0}]},
        )
        for number, (status, reason) in enumerate([(Status.OK, None), (Status.FAILED, "File /home/hopper/site/pkg/mod.py broke")])
    ]
    for row in rows:
        store.add_result(row)
    rows_file, _summary = publish(store, [store.find_run(run.id)], tmp_path / "published").files
    text = lzma.decompress(rows_file.read_bytes()).decode()
    assert "hopper" not in text
    assert "GPU-1" not in text
    with Store.open(tmp_path / "other.db") as other:
        other.import_file(rows_file)
        shown = other.results([run.id])
        assert [row.id for row in shown] == [row.id for row in rows]
        assert [row.measurements for row in shown] == [row.measurements for row in rows]
        assert [row.log for row in shown] == ["", "mod.py:7: warning"]
        assert shown[1].reason == "File mod.py broke"
        assert other.find_run(run.id).options == {"plugins": ["mine.py"], "profile": "quick"}
        assert {row.conditions["gpu_uuid"] for row in shown} != {"GPU-1"}
        assert shown[0].environment.soft["kernel"] == "6.1.0"
