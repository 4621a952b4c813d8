"""A suite expands to typed cases in declared order; cells that cannot be are told, rules and filters leave cases out."""

from __future__ import annotations

from typing import Any

import pytest

from bench.catalogue import Catalogue, load_catalogue
from bench.errors import SelectionError, SuiteError
from bench.records import Case, Pass, dump, load_json
from bench.suite import expand, parse_filters
from bench.suite.expansion import MAX_CASES
from tests.catalogue.test_finding import TOY_WAY, WORKLOAD
from tests.suite.conftest import PLAIN, Load, Write


def sweep(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**PLAIN["sweep"], **changes}.items() if value is not None}


@pytest.fixture
def cases(load: Load, catalogue: Catalogue) -> Any:
    def expanded(*filters: str, device: str = "cpu", **changes: Any) -> list[Case]:
        return list(expand(load(**changes), catalogue, device=device, filters=parse_filters(filters)).cases)

    return expanded


def test_axes_vary_as_declared_and_subjects_are_neighbours(cases: Any) -> None:
    found = [(case.params["seq_len"], str(case.pass_), case.subject["attention"]) for case in cases()]
    assert found == [
        (128, "forward", "eager"),
        (128, "forward", "sdpa_flash"),
        (128, "forward_backward", "eager"),
        (128, "forward_backward", "sdpa_flash"),
        (256, "forward", "eager"),
        (256, "forward", "sdpa_flash"),
        (256, "forward_backward", "eager"),
        (256, "forward_backward", "sdpa_flash"),
    ]
    turned = {"pass": ["forward", "backward"], **sweep()} | {"pass": ["forward", "backward"]}
    assert [(str(case.pass_), case.params["seq_len"]) for case in cases(sweep=turned)][::2] == [
        ("forward", 128), ("forward", 256), ("backward", 128), ("backward", 256),
    ]  # fmt: skip


def test_a_case_is_complete_and_typed(cases: Any) -> None:
    case = cases(sweep=sweep(dropout=0))[0]
    assert case == Case(
        workload="attention",
        workload_version=case.workload_version,
        subject={"attention": "eager"},
        pass_=Pass.FORWARD,
        dtype="fp32",
        device="cpu",
        cache="warm",
        timer="wall",
        params={
            "model": "tiny", "heads": 4, "kv_heads": 2, "head_dim": 32, "seq_len": 128, "batch": 1, "mask": "causal", "dropout": 0.0,
        },
    )  # fmt: skip
    assert type(case.params["dropout"]) is float
    assert case.key == cases()[0].key, "a default said aloud is the same case"
    assert load_json(Case, __import__("json").dumps(dump(case))).key == case.key


def test_cache_and_timer_follow_the_device_unless_the_suite_says(cases: Any) -> None:
    cuda = cases(device="cuda")[0]
    assert (cuda.device, cuda.cache, cuda.timer) == ("cuda", "cold", "events")
    assert cases(device="cpu-interpreter")[0].timer == "wall"
    said = cases(device="cuda", sweep=sweep(timer="cuda_graph", cache="warm"))[0]
    assert (said.cache, said.timer) == ("warm", "cuda_graph")


def test_a_timer_of_another_device_is_a_mistake(cases: Any) -> None:
    with pytest.raises(SuiteError, match=r"sweep: the timer events does not work on cpu; there: wall \(in the cell .*timer=events"):
        cases(sweep=sweep(timer="events"))


def test_a_batch_of_tokens_is_divided_by_the_sequence_length(cases: Any) -> None:
    found = {(case.params["seq_len"], case.params["batch"]) for case in cases(sweep=sweep(batch={"tokens": [512, 1024]}))}
    assert found == {(128, 4), (256, 2), (128, 8), (256, 4)}


def test_tokens_that_do_not_divide_name_the_cell(cases: Any) -> None:
    with pytest.raises(SuiteError) as caught:
        cases(sweep=sweep(batch={"tokens": 384}))
    assert "384 tokens do not divide into sequences of 256 (in the cell model=tiny seq_len=256 batch=384 tokens" in str(
        caught.value
    )
    assert "sequences of 128" not in str(caught.value)
    assert "and in 1 more" in str(caught.value)


def test_a_rule_or_a_filter_may_leave_out_the_cell_that_cannot_be(cases: Any) -> None:
    tokens = sweep(batch={"tokens": 384})
    assert {case.params["batch"] for case in cases(sweep=tokens, exclude=[{"seq_len": 256}])} == {3}
    assert {case.params["batch"] for case in cases("seq_len=128", sweep=tokens)} == {3}


def test_a_varied_model_is_labelled_by_what_varies(cases: Any) -> None:
    model = ["tiny", {"from": "tiny", "heads": [2, 4], "head_dim": 64}]
    found = [
        (case.params["model"], case.params["heads"], case.params["kv_heads"], case.params["head_dim"])
        for case in cases("attention=eager", "seq_len=128", "pass=forward", sweep=sweep(model=model))
    ]
    assert found == [("tiny", 4, 2, 32), ("tiny(heads=2,head_dim=64)", 2, 2, 64), ("tiny(heads=4,head_dim=64)", 4, 2, 64)]


def test_what_the_workload_refuses_is_told_with_its_cell(cases: Any) -> None:
    with pytest.raises(
        SuiteError, match=r"heads \(3\) must be a multiple of kv_heads \(2\) \(in the cell model=tiny\(heads=3\) seq_len=128"
    ):
        cases(sweep=sweep(model={"from": "tiny", "heads": [2, 3]}))


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"attention": "eager"}, 4),
        ({"attention": "eager", "seq_len": 128}, 6),
        ({"attention": ["eager", "sdpa_flash"], "seq_len": {"gt": 128}}, 4),
        ({"seq_len": {"ge": 128, "lt": 256}}, 4),
        ({"seq_len": {"le": 100}}, 8),
        ({"seq_len": {"ne": 128}}, 4),
        ({"seq_len": {"in": [1, 256]}}, 4),
        ({"pass": "forward", "dtype": "bf16"}, 8),
        ({"heads": {"gt": 3}, "seq_len": 128}, 4),
        ({"device": "cuda"}, 8),
        ({"model": "tiny", "mask": "causal", "seq_len": 128}, 4),
    ],
)
def test_a_rule_excludes_where_all_its_conditions_hold(load: Load, catalogue: Catalogue, rule: dict[str, Any], left: int) -> None:
    expansion = expand(load(exclude=[rule]), catalogue, device="cpu")
    assert (len(expansion.cases), expansion.excluded, expansion.filtered) == (left, 8 - left, 0)


def test_rules_that_exclude_everything_are_a_mistake_with_the_line_of_the_rules(
    write: Write, load: Load, catalogue: Catalogue
) -> None:
    suite = load(exclude=[{"dtype": "fp32"}])
    lines = write(exclude=[{"dtype": "fp32"}]).read_text().splitlines()
    with pytest.raises(SuiteError) as caught:
        expand(suite, catalogue, device="cpu")
    assert str(caught.value) == f"{suite.file}:{lines.index('exclude:') + 1}: exclude: the rules exclude every case"
    with pytest.raises(SuiteError, match=r"^--set: exclude: the rules exclude every case$"):
        expand(load(sets=("exclude=[{dtype: fp32}]",)), catalogue, device="cpu")


def test_cells_that_cannot_be_are_told_with_the_line_of_the_sweep(load: Load, catalogue: Catalogue) -> None:
    suite = load(sets=("batch={tokens: 300}",))
    with pytest.raises(SuiteError, match=r"suite\.yaml:\d+: sweep: 300 tokens do not divide into sequences of 128"):
        expand(suite, catalogue, device="cpu")


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (["attention=eager"], 4),
        (["attention=eager,sdpa_flash"], 8),
        (["attention=eager", "seq_len=128"], 2),
        (["seq_len=128", "seq_len=256"], 8),
        (["pass=forward", "seq_len=256", "attention=sdpa_flash"], 1),
        (["dropout=0", "heads=4", "device=cpu"], 8),
        (["dropout=0.0"], 8),
        (["model=tiny"], 8),
    ],
)
def test_filters_keep_what_answers_to_all_keys(load: Load, catalogue: Catalogue, filters: list[str], left: int) -> None:
    expansion = expand(load(), catalogue, device="cpu", filters=parse_filters(filters))
    assert (len(expansion.cases), expansion.excluded, expansion.filtered) == (left, 0, 8 - left)


def test_every_case_is_selected_alone_by_filters_made_of_its_own_values(load: Load, catalogue: Catalogue) -> None:
    model = ["tiny", {"from": "tiny", "heads": [2, 4], "head_dim": 64}]
    suite = load(sweep=sweep(model=model, dropout=[0.0, 0.1]))
    cases = expand(suite, catalogue, device="cpu").cases
    axes = ["attention", *suite.sweep]
    for case in cases[::5]:
        filters = parse_filters([f"{axis}={case.axis_value(axis)}" for axis in axes])
        assert expand(suite, catalogue, device="cpu", filters=filters).cases == (case,)


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        (["seq_len"], SuiteError, "--filter: write axis=value or axis=value1,value2, not 'seq_len'"),
        (["=3"], SuiteError, "write axis=value"),
        (["seq_len="], SuiteError, "write axis=value"),
        (["seqlen=3"], SuiteError, "--filter: seqlen: unknown axis 'seqlen'.*did you mean 'seq_len'"),
        (["attention=egaer"], SuiteError, "unknown attention 'egaer'.*did you mean 'eager'"),
        (["seq_len=x"], SuiteError, "seq_len must be a whole number, not 'x'"),
        (["seq_len=128,99"], SelectionError, "no case has seq_len=99; there are: 128, 256"),
        (["attention=flex"], SelectionError, "no case has attention=flex; there are: eager, sdpa_flash"),
    ],
)
def test_a_filter_that_means_nothing_is_told(cases: Any, filters: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cases(*filters)


def test_filters_that_match_no_case_together_are_told(cases: Any) -> None:
    with pytest.raises(SelectionError, match="no case answers to all filters together"):
        cases("attention=eager", "seq_len=128", exclude=[{"attention": "eager", "seq_len": 128}])


def test_an_explosion_is_refused_before_it_happens(cases: Any) -> None:
    many = list(range(1, 800))
    with pytest.raises(SuiteError, match=f"{MAX_CASES} at most"):
        cases(sweep=sweep(seq_len=many, batch=many))


def test_cases_that_would_be_there_twice_are_there_once(cases: Any) -> None:
    found = cases(sweep=sweep(batch=[1, {"tokens": 128}], seq_len=[128]))
    assert len(found) == 4
    assert len({case.key for case in found}) == 4


def test_a_workload_without_dimensions_takes_no_model(write: Write, tmp_path: Any) -> None:
    from textwrap import dedent

    from bench.suite import load_suite

    plugin = tmp_path / "toy.py"
    plugin.write_text(dedent(WORKLOAD) + dedent(TOY_WAY))
    catalogue = load_catalogue([plugin])
    toy = {"workload": "toy", "subjects": {"toy": ["way"]}}
    path = write(**toy, sweep={"size": [3], "dtype": "fp32", "pass": "forward"})
    (case,) = expand(load_suite(path, catalogue), catalogue, device="cpu").cases
    assert case.params == {"size": 3}
    assert case.workload_version == 3
    path = write(**toy, sweep={"model": "tiny", "size": [3], "dtype": "fp32", "pass": "forward"})
    with pytest.raises(SuiteError, match=r"sweep\.model: toy takes no model; its axes: size, dtype"):
        load_suite(path, catalogue)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_suites_of_this_repository_expand_on_every_device(catalogue: Catalogue, device: str) -> None:
    from bench.suite import load_suite
    from tests.suite.test_load import SUITES

    for path in SUITES:
        for profile in (None, *load_suite(path, catalogue).profiles):
            suite = load_suite(path, catalogue, profile=profile)
            assert expand(suite, catalogue, device=device).cases
