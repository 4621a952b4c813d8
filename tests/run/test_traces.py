"""What a trial leaves on disk, whole or cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import HarnessError
from bench.run.traces import Phase, cost_measurements, log_bytes, read_phases, read_reply, spans, stored_log
from tests import factories


def test_a_last_phase_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "phases.jsonl").write_text('{"phase": "started", "t": 1.0}\n{"phase": "hando')
    assert read_phases(tmp_path) == (Phase("started", 1.0),)
    assert read_phases(tmp_path / "absent") == ()


def test_a_log_of_any_bytes_becomes_valid_text_without_nuls(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a\0b\xff\xfe \xf0\x9f\x9a\x80\n")
    text = stored_log(tmp_path)
    assert "\0" not in text
    assert text.endswith("\N{ROCKET}\n")
    assert stored_log(tmp_path / "absent") == ""


def test_a_long_log_keeps_its_head_and_its_tail_and_says_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\n" + "middle\n" * 100_000 + "last\n")
    text = stored_log(tmp_path)
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert "bytes left out" in text
    assert len(text) < 66_000


def test_logs_of_ranks_stand_one_after_the_other_each_with_its_own_head_and_tail(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    (tmp_path / "log.10").write_text("of the last\n")
    (tmp_path / "log.2").write_text("first\n" + "middle\n" * 100_000 + "last\n")
    text = stored_log(tmp_path)
    assert text.startswith("[rank 2]\nfirst\n")
    assert text.endswith("last\n[rank 10]\nof the last\n")
    assert "bytes left out" in text
    assert len(text) < 66_000
    assert log_bytes(tmp_path) > 700_000


def test_a_reply_of_another_form_is_our_own_fault(tmp_path: Path) -> None:
    (tmp_path / "reply.json").write_text('{"status": "splendid"}')
    with pytest.raises(HarnessError, match="not a reply"):
        read_reply(tmp_path)


def test_texts_of_a_reply_lose_nuls_half_characters_and_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "open-sesame")
    (tmp_path / "reply.json").write_text('{"status": "failed", "reason": "a\\u0000b \\ud800 open-sesame"}')
    reply = read_reply(tmp_path)
    assert reply is not None
    assert reply.reason is not None
    assert "open-sesame" not in reply.reason
    assert "\0" not in reply.reason
    reply.reason.encode()


def test_overhead_is_the_whole_trial_less_what_the_subject_and_the_samples_need() -> None:
    reached = {"started": 10.1, "handover": 10.2, "inputs": 10.5, "warmup": 11.0, "sampling": 12.0, "proof": 14.0, "replied": 14.4}
    phases = [Phase(name, t) for name, t in reached.items()]
    given = [factories.measurement("import_s", (0.25,)), factories.measurement("compile_cold_s", (0.3,))]
    costs = {m.metric: m.samples[0] for m in cost_measurements(phases, requested=10.0, ended=14.5, already=given)}
    assert costs["fork_s"] == pytest.approx(0.1)
    assert costs["inputs_s"] == pytest.approx(0.5)
    assert costs["sampling_s"] == pytest.approx(2.0)
    assert costs["overhead_s"] == pytest.approx(4.5 - 0.25 - 0.3 - 1.0 - 2.0)
    assert "import_s" not in costs


def test_the_wait_for_the_row_of_another_trial_is_neither_overhead_nor_import() -> None:
    reached = {"started": 10.0, "handover": 10.1, "import": 10.2, "gate": 10.5, "device_init": 13.5, "replied": 14.0}
    phases = [Phase(name, t) for name, t in reached.items()]
    costs = {m.metric: m.samples[0] for m in cost_measurements(phases, requested=10.0, ended=14.5, already=())}
    assert costs["import_s"] == pytest.approx(0.4)
    assert costs["device_init_s"] == pytest.approx(0.5)
    assert costs["overhead_s"] == pytest.approx(4.5 - 3.0 - 0.4 - 0.5)


def test_a_phase_that_comes_twice_adds_up() -> None:
    assert spans([Phase("check", 1.0), Phase("memory", 2.0), Phase("check", 4.0)], 4.5) == {"check": 1.5, "memory": 2.0}
