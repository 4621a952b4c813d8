"""A search doubles, then halves the gap, each probe a row; it goes on from its rows after any stop, and its end can be read from them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import load_catalogue
from bench.machine import Device, find_device
from bench.records import Case, Result, RunState, Status
from bench.run import Plan, Progress, RunOptions, RunSummary, execute, make_plan, rerun, resume
from bench.run.resume import _go_on
from bench.run.search import Frontier, at_value, frontier, most_probes, next_value, outcome, spell_frontier
from bench.store import Store
from bench.suite import Search, expand, load_suite, parse_filters
from tests.suite.many_slots import SUITE, plugin_in

pytestmark = pytest.mark.usefixtures("shared_server")

PROTOCOL = {"timeout_s": 60, "min_samples": 3, "max_samples": 5, "min_sampling_s": 0, "max_sampling_s": 0.2, "max_warmup_s": 0.1}
SIZES = {"axis": "size", "until": "oom", "from": 4, "to": 4096}


def search(start: int, stop: int, step: int | None = None) -> Search:
    return Search(axis="size", until="oom", start=start, stop=stop, step=step)


def probed(asked: Search, fits_up_to: int, guess: int | None = None) -> dict[int, Status]:
    """The whole search of a subject that fits up to a value."""
    answers: dict[int, Status] = {}
    while (value := next_value(asked, answers, guess)) is not None:
        assert asked.start <= value <= asked.stop
        assert value not in answers
        answers[value] = Status.OK if value <= fits_up_to else Status.OOM
    return answers


def test_probes_double_and_then_halve_the_gap_down_to_an_eighth_of_what_fits() -> None:
    assert list(probed(search(16, 4096), 100)) == [16, 32, 64, 128, 96, 112, 104]
    assert frontier(probed(search(16, 4096), 100)) == Frontier(96, 104)
    assert list(probed(search(1, 64), 5)) == [1, 2, 4, 8, 6, 5]


def test_with_a_step_all_values_are_multiples_of_it_above_the_first_and_the_answer_is_exact_to_it() -> None:
    answers = probed(search(1000, 9000, 512), 4321)
    assert all((value - 1000) % 512 == 0 for value in answers)
    assert frontier(answers) == Frontier(4072, 4584)
    assert list(probed(search(3, 200, 50), 70)) == [3, 53, 103]


def test_a_search_ends_at_its_last_value_and_does_not_look_below_its_first() -> None:
    assert list(probed(search(16, 100), 1000)) == [16, 32, 64, 100]
    assert list(probed(search(16, 100), 3)) == [16]
    assert list(probed(search(7, 7), 9)) == [7]


def test_from_a_guess_probes_go_away_twice_as_far_each_time_and_then_halve_the_gap() -> None:
    context = search(1024, 65536, 1024)
    assert list(probed(context, 20 * 1024, 20 * 1024)) == [20480, 21504]
    assert list(probed(context, 19 * 1024, 20 * 1024)) == [20480, 19456]
    assert [value // 1024 for value in probed(context, 30 * 1024, 20 * 1024)] == [20, 21, 22, 24, 28, 36, 32, 30, 31]
    assert [value // 1024 for value in probed(context, 11 * 1024, 20 * 1024)] == [20, 19, 18, 16, 12, 4, 8, 10, 11]
    assert list(probed(search(16, 4096), 100, 90)) == [90, 101]  # an eighth of the value is near enough
    assert list(probed(search(1, 4096), 5, 90)) == [90, 79, 68, 46, 23, 11, 5, 8, 6]


def test_from_a_guess_at_an_end_of_the_search_nothing_beyond_is_asked_for() -> None:
    context = search(1024, 65536, 1024)
    assert list(probed(context, 0, 1024)) == [1024]
    assert list(probed(context, 10**6, 65536)) == [65536]
    assert list(probed(context, 0, 3000))[-1] == 1024
    assert list(probed(context, 10**6, 60000)) == [59392, 60416, 61440, 63488, 65536]
    assert list(probed(search(1000, 9000, 512), 10**6, 9000)) == [8680]


@pytest.mark.parametrize("asked", [search(1, 1), search(1, 64), search(1000, 9000, 512), search(16, 2**20), search(3, 200, 50)])
@pytest.mark.parametrize("part", [None, 0, 0.03, 0.4, 0.9, 1])
def test_no_search_needs_more_probes_than_are_planned_for(asked: Search, part: float | None) -> None:
    guess = None if part is None else asked.start + int((asked.stop - asked.start) * part)
    limits = {asked.start - 1, asked.stop, *(asked.start + (asked.stop - asked.start) * part // 97 for part in range(97))}
    found = {limit: probed(asked, limit, guess) for limit in limits}
    assert max(map(len, found.values())) <= most_probes(asked, guess)
    for limit, answers in found.items():
        ends = frontier(answers)
        assert (ends.largest_ok or 0) <= limit < (ends.smallest_oom or math.inf)
        assert ends.smallest_oom != asked.start or limit < asked.start


def test_only_out_of_memory_closes_in_and_any_other_failure_ends_the_search_by_name() -> None:
    assert next_value(search(1, 64), {1: Status.OK, 2: Status.INVALID}) == 4
    for status in (Status.FAILED, Status.TIMEOUT, Status.CRASHED, Status.UNSUPPORTED, Status.INCORRECT, Status.UNAVAILABLE):
        answers = {1: Status.OK, 2: status}
        assert next_value(search(1, 64), answers) is None
        assert frontier(answers).ended_by == (2, status)
        assert spell_frontier(search(1, 64), frontier(answers)) == f"the search ends at size 2, which is {status}; 1 fits"


def test_memory_that_ran_out_below_a_value_that_fitted_ends_the_search() -> None:
    assert next_value(search(1, 64), {1: Status.OK, 2: Status.OOM, 4: Status.OK}) is None


def test_a_probe_of_several_trials_fits_only_if_all_do_and_waits_for_all() -> None:
    assert outcome([Status.OK, None]) is None
    assert outcome([Status.OK, Status.OOM, Status.FAILED]) is Status.OOM
    assert outcome([Status.OK, Status.TIMEOUT]) is Status.TIMEOUT
    assert outcome([Status.INVALID, Status.OK]) is Status.OK


class Steps:
    """A suite on the workload of four slots, in a folder of its own, with a database beside it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.database = folder / "bench.db"
        self.file = folder / "steps.yaml"
        said = {
            **SUITE,
            "sweep": {"pass": "forward"},
            "search": SIZES,
            "arms": [{}, {"step": "flash"}],
            "protocol": PROTOCOL,
            **changes,
        }
        self.file.write_text(json.dumps(said))
        self.options = RunOptions(suite_file=str(self.file), device="cpu", seed=1, plugins=(str(plugin_in(folder)),))
        self.catalogue = load_catalogue([Path(path) for path in self.options.plugins])

    def plan(self, **changes: Any) -> tuple[Plan, Any, RunOptions]:
        options = dataclasses.replace(self.options, **changes)
        suite = load_suite(self.file, self.catalogue)
        expansion = expand(suite, self.catalogue, device="cpu", filters=parse_filters(options.filters))
        return make_plan(suite, expansion, options, catalogue=self.catalogue), suite, options

    def run(
        self, told: list[Progress] | None = None, progress: Any = None, clock: Any = time.monotonic, **changes: Any
    ) -> RunSummary:
        plan, suite, options = self.plan(**changes)
        say = progress or (told.append if told is not None else lambda _said: None)
        with Store.open(self.database) as store:
            return execute(plan, suite, store, find_device("cpu"), self.catalogue, options, progress=say, clock=clock)


def by_subject(rows: Any, slot: str = "step") -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault(row.case.subject[slot], []).append((row.case.params["size"], str(row.status)))
    return found


def frontiers(rows: Iterable[Result]) -> list[tuple[Case, Frontier]]:
    """What rows say of each subject at each point."""
    found: dict[str, tuple[Case, dict[Any, list[Status]]]] = {}
    for row in rows:
        _, statuses = found.setdefault(at_value(row.case, "size", 0).key, (row.case, {}))
        statuses.setdefault(row.case.params["size"], []).append(row.status)
    return [
        (case, frontier({size: ended for size, ends in statuses.items() if (ended := outcome(ends)) is not None}))
        for case, statuses in found.values()
    ]


def largest(rows: list[Result]) -> Mapping[str, Frontier]:
    return {case.subject["step"]: found for case, found in frontiers(rows)}


def test_every_subject_gets_its_own_frontier_in_rows_and_subjects_that_ask_for_the_same_value_share_a_block(tmp_path: Path) -> None:
    told: list[Progress] = []
    summary = Steps(tmp_path).run(told)
    rows = list(summary.results)
    ok, oom = "ok", "oom"
    assert by_subject(rows) == {
        "plain": [(4, ok), (8, ok), (16, ok), (32, ok), (64, ok), (128, oom), (96, ok), (112, oom), (104, oom)],
        "flash": [(4, ok), (8, ok), (16, ok), (32, oom), (24, ok), (28, oom), (26, oom)],
    }
    assert largest(rows) == {"plain": Frontier(96, 104), "flash": Frontier(24, 26)}
    assert (summary.state, summary.planned, summary.exit_code) == (RunState.FINISHED, 16, 0)
    blocks = {
        block: {row.case.point_key for row in rows if row.trial.block == block} for block in {row.trial.block for row in rows}
    }
    assert all(len(points) == 1 for points in blocks.values())
    assert len(blocks) == 12
    assert [row.trial.position for row in rows if row.case.params["size"] == 16] == [0, 1]
    words = [said.text for said in told if said.result is None]
    assert words == ["step=flash: size 24 fits, 26 does not", "defaults: size 96 fits, 104 does not"]
    assert [said.planned > said.done for said in told if said.result is not None] == [True] * 15 + [False]
    assert told[-1].left_s == 0


def test_a_failure_that_is_not_memory_ends_that_search_and_no_other(tmp_path: Path) -> None:
    told: list[Progress] = []
    summary = Steps(tmp_path, arms=[{"step": "raises"}, {"step": "flash"}]).run(told)
    assert by_subject(summary.results)["raises"] == [(4, "ok"), (8, "ok"), (16, "failed")]
    assert largest(list(summary.results))["flash"] == Frontier(24, 26)
    assert "step=raises: the search ends at size 16, which is failed; 8 fits" in [said.text for said in told]


def test_what_is_refused_beforehand_gets_its_one_row_without_a_process(tmp_path: Path) -> None:
    steps = Steps(
        tmp_path, subjects={"attention": ["flash_attn2"]}, arms=None, workload="attention", search={**SIZES, "axis": "seq_len"}
    )
    steps.file.write_text(
        json.dumps(
            {**json.loads(steps.file.read_text()), "sweep": {"model": "tiny", "batch": 1, "dtype": "fp32", "pass": "forward"}}
        )
    )
    summary = steps.run()
    assert summary.counts == {Status.UNSUPPORTED: 1}


def test_the_budget_stops_between_the_blocks_of_a_search_and_resume_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    ticks = itertools.count(0, 20)
    told: list[Progress] = []
    first = steps.run(told, clock=lambda: float(next(ticks)), budget_s=90.0)
    assert first.state is RunState.BUDGET
    assert 2 <= len(first.results) < 16
    assert "at least" in told[-1].text
    with Store.open(steps.database) as store:
        after = resume("latest", store)
        rows = store.results([after.run_id])
        assert after.state is RunState.FINISHED
        assert (after.before, after.before + len(after.results)) == (len(first.results), 16)
        assert largest(rows) == {"plain": Frontier(96, 104), "flash": Frontier(24, 26)}
        assert len({row.trial.key for row in rows}) == 16
        again = resume("latest", store)
    assert (again.results, again.planned, again.before) == ((), 16, 16)


def test_an_interrupted_search_goes_on_in_the_middle_of_a_block(tmp_path: Path) -> None:
    def interrupt(said: Progress) -> None:
        if said.done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    steps = Steps(tmp_path)
    first = steps.run(progress=interrupt)
    assert (first.state, len(first.results)) == (RunState.INTERRUPTED, 3)
    with Store.open(steps.database) as store:
        assert len(resume("latest", store).results) == 13
        assert store.check() == []


def test_a_search_that_began_at_guesses_goes_on_after_an_interrupt_from_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guesses = {"plain": 128, "flash": 20}
    monkeypatch.setattr("bench.run.plan.foreseen", lambda _search, case: guesses[case.subject["step"]])

    def interrupt(said: Progress) -> None:
        if said.done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    steps = Steps(tmp_path, protocol={**PROTOCOL, "probe": True})
    first = steps.run(progress=interrupt)
    assert (first.state, len(first.results)) == (RunState.INTERRUPTED, 3)
    with Store.open(steps.database) as store:
        after = resume("latest", store)
        assert (after.state, after.before + len(after.results)) == (RunState.FINISHED, after.planned)
        rows = store.results([after.run_id])
        assert store.check() == []
    assert largest(rows) == {"plain": Frontier(96, 104), "flash": Frontier(24, 26)}
    ok, oom = "ok", "oom"
    assert {name: sorted(found) for name, found in by_subject(rows).items()} == {
        "plain": [(96, ok), (104, oom), (112, oom), (128, oom)],
        "flash": [(20, ok), (22, ok), (24, ok), (26, oom), (28, oom)],
    }


def test_on_another_device_an_unfinished_search_begins_anew_as_a_whole_and_a_finished_one_stays(tmp_path: Path) -> None:
    steps = Steps(tmp_path, sweep={"pass": "forward", "dropout": [0.0, 0.5]}, arms=[{"step": "flash"}])
    stop_after = 9

    def interrupt(said: Progress) -> None:
        if said.done == stop_after:
            os.kill(os.getpid(), signal.SIGINT)

    steps.run(progress=interrupt)
    here = find_device("cpu")
    other = Device(**{name: getattr(here, name) for name in here.__slots__} | {"name": "Another CPU"})
    plan, suite, options = steps.plan()
    with Store.open(steps.database) as store:
        run = store.find_run("latest")
        after = _go_on(run, plan, suite, store, other, steps.catalogue, options, lambda _said: None, time.monotonic)
        rows = store.results([run.id])
        everything = store.results([run.id], include_excluded=True)
    assert after.state is RunState.FINISHED
    assert (len(rows), len(everything), len(after.results)) == (14, 16, 7)
    assert {len([row for row in rows if row.trial.attempt == attempt]) for attempt in (0, 1)} == {7}
    assert [row.excluded_reason is not None for row in everything].count(True) == 2
    assert [found for _, found in frontiers(rows)] == [Frontier(24, 26)] * 2


def test_a_filter_on_the_searched_axis_measures_just_that_as_in_any_suite(tmp_path: Path) -> None:
    summary = Steps(tmp_path).run(filters=("size=12,128", "step=plain"), trials=2)
    assert sorted(by_subject(summary.results)["plain"]) == [(12, "ok"), (12, "ok"), (128, "oom"), (128, "oom")]


def test_shards_share_the_searches_and_name_no_block_twice(tmp_path: Path) -> None:
    steps = Steps(tmp_path, sweep={"pass": "forward", "dropout": [0.0, 0.1, 0.2]})
    parts = [steps.plan(shard=(part, 2))[0] for part in (1, 2)]
    assert [len(part.searching.groups) for part in parts if part.searching] == [2, 1]
    whole, _, _ = steps.plan()
    assert whole.searching is not None

    def searched(plan: Plan) -> list[str]:
        return sorted(case.key for group in plan.searching.groups for case in group.cases) if plan.searching else []

    assert sorted([*searched(parts[0]), *searched(parts[1])]) == searched(whole)
    numbers = [
        block[0].block for group in whole.searching.groups for block in whole.searching.blocks(lambda trial: Status.OK, group)
    ]
    assert len(numbers) == len(set(numbers)) == 3 * 11


def test_the_plan_of_a_search_says_how_many_trials_there_can_be_and_guesses_for_all_of_them(tmp_path: Path) -> None:
    plan, _, _ = Steps(tmp_path).plan()
    assert len(plan.trials) == 2
    assert plan.most_trials == 2 * most_probes(search(4, 4096))
    assert plan.estimated_s > plan.seconds(plan.trials) * (most_probes(search(4, 4096)) - 1)


def test_a_probe_is_measured_again_by_its_own_command_and_by_rerun_without_a_search(tmp_path: Path) -> None:
    steps = Steps(tmp_path, arms=[{"step": "flash"}])
    row = next(row for row in steps.run().results if row.case.params["size"] == 24)
    assert "--filter size=24" in row.command
    with Store.open(steps.database) as store:
        assert store.runs()[0].planned_trials == 7
        again = rerun(row.id, store)
    assert [(new.case.key, new.status) for new in again.new] == [(row.case.key, Status.OK)]


@pytest.mark.parametrize(("limit", "status"), [("1GB", Status.OK), ("1MB", Status.OOM), ("500TB", Status.UNSUPPORTED)])
def test_a_cap_on_memory_binds_what_a_trial_may_take(tmp_path: Path, limit: str, status: Status) -> None:
    steps = Steps(
        tmp_path, search=None, sweep={"pass": "forward", "size": 16, "memory_limit": [limit, "none"]}, arms=[{"step": "large"}]
    )
    rows = {row.case.params.get("memory_limit_bytes"): row for row in steps.run(trials=1).results}
    capped = next(row for value, row in rows.items() if value is not None)
    assert (capped.status, rows[None].status) == (status, Status.OK)
    assert f"--filter memory_limit={limit}" in capped.command
