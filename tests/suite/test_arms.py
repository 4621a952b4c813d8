"""Arms, ladders, leave-one-out and pairs become subjects that hold every slot, under labels that people can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.catalogue import Catalogue
from bench.errors import SelectionError, SuiteError
from bench.records import Case
from bench.suite import Suite, arms_of, expand, label_of, load_suite, parse_filters, suite_from_data
from tests.suite.conftest import Write
from tests.suite.many_slots import SUITE, catalogue_in, subject

LoadSteps = Callable[..., Suite]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return catalogue_in(tmp_path_factory.mktemp("steps"))


@pytest.fixture
def load(write: Write, steps: Catalogue) -> LoadSteps:
    def load_changed(profile: str | None = None, sets: tuple[str, ...] = (), **changes: Any) -> Suite:
        return load_suite(write(**{"subjects": None, **SUITE, **changes}), steps, profile=profile, sets=sets)

    return load_changed


def labels(suite: Suite) -> list[str]:
    return [arm.label for arm in arms_of(suite.to_data())]


def subjects(suite: Suite, catalogue: Catalogue, *filters: str) -> list[dict[str, str]]:
    return [dict(case.subject) for case in expand(suite, catalogue, device="cpu", filters=parse_filters(filters)).cases]


def problems(load: LoadSteps, **changes: Any) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        load(**changes)
    return [str(problem).split("suite.yaml", 1)[-1] for problem in caught.value.problems]


def test_a_case_holds_every_slot_in_the_workloads_order_whatever_the_suite_leaves_out(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(subjects={"step_rope": ["liger"], "step": ["plain", "flash"]})
    found = subjects(suite, steps)
    assert found == [subject(step_rope="liger"), subject(step_rope="liger", step="flash")]
    assert [list(one) for one in found] == [list(subject())] * 2


def test_arms_lie_over_the_defaults_and_a_list_in_one_is_multiplied_within_it(load: LoadSteps, steps: Catalogue) -> None:
    arms = [{}, {"step": "flash"}, {"step": ["plain", "flash"], "step_norm": ["liger", "compiled"]}]
    suite = load(arms=arms)
    assert subjects(suite, steps) == [
        subject(),
        subject(step="flash"),
        subject(step_norm="liger"),
        subject(step_norm="compiled"),
        subject(step="flash", step_norm="liger"),
        subject(step="flash", step_norm="compiled"),
    ]
    assert labels(suite) == [
        "defaults",
        "step=flash",
        "step_norm=liger",
        "step_norm=compiled",
        "step=flash step_norm=liger",
        "step=flash step_norm=compiled",
    ]


def test_the_suites_own_defaults_lie_over_those_of_the_workload_and_a_label_says_what_differs_from_them(
    load: LoadSteps, steps: Catalogue
) -> None:
    suite = load(defaults={"layers": "liger"}, arms=[{}, {"step_rope": "plain"}])
    assert subjects(suite, steps) == [subject(step_norm="liger", step_rope="liger"), subject(step_norm="liger")]
    assert labels(suite) == ["defaults", "step_rope=plain"]
    assert suite.to_data()["defaults"] == subject(step_norm="liger", step_rope="liger")


def test_a_shorthand_fills_the_slots_that_have_such_an_implementation_and_a_slots_own_word_goes_before_it(
    load: LoadSteps, steps: Catalogue
) -> None:
    suite = load(
        arms=[
            {"layers": "liger"},
            {"layers": "compiled"},
            {"step_rope": "plain", "layers": "liger"},
            {"step": "flash", "layers": "liger"},
        ]
    )
    assert subjects(suite, steps) == [
        subject(step_norm="liger", step_rope="liger"),
        subject(step_norm="compiled"),
        subject(step_norm="liger"),
        subject(step="flash", step_norm="liger", step_rope="liger"),
    ]
    assert labels(suite) == ["layers=liger", "step_norm=compiled", "step_norm=liger", "step=flash layers=liger"]


def test_a_shorthand_is_a_list_of_subjects_too(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(subjects={"layers": ["plain", "liger"], "step": "flash"})
    assert subjects(suite, steps) == [subject(step="flash"), subject(step="flash", step_norm="liger", step_rope="liger")]


def test_a_ladder_takes_one_step_more_each_time(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(ladder=[{"step": "flash"}, {"layers": "liger"}, {"name": "amp", "step_precision": "bf16_amp"}])
    arms = arms_of(suite.to_data())
    assert [dict(arm.subject) for arm in arms] == [
        subject(),
        subject(step="flash"),
        subject(step="flash", step_norm="liger", step_rope="liger"),
        subject(step="flash", step_norm="liger", step_rope="liger", step_precision="bf16_amp"),
    ]
    assert [arm.places[0].position for arm in arms] == [0, 1, 2, 3]
    assert arms[-1].places[0].parts == ("step=flash", "layers=liger", "amp")
    named = ["defaults", "step=flash", "step=flash layers=liger", "3: + amp"]
    assert [arm.label for arm in arms] == named
    assert [label_of(suite.to_data())(arm.subject) for arm in arms] == named


def test_what_the_subjects_compare_is_said_of_each_even_where_it_is_the_default(load: LoadSteps) -> None:
    suite = load(subjects={"step": ["plain", "flash"]}, defaults={"step_norm": "liger"})
    assert labels(suite) == ["step=plain", "step=flash"]
    assert labels(load(subjects={"step": ["plain", "flash"], "step_norm": ["plain"]})) == [
        "step=plain step_norm=plain",
        "step=flash step_norm=plain",
    ]


def test_leave_one_out_is_all_parts_together_and_all_but_each(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(leave_one_out={"flash": {"step": "flash"}, "liger": {"layers": "liger"}, "amp": {"step_precision": "bf16_amp"}})
    arms = arms_of(suite.to_data())
    assert [arm.places[0].left_out for arm in arms] == [None, "flash", "liger", "amp"]
    assert dict(arms[2].subject) == subject(step="flash", step_precision="bf16_amp")
    assert arms[2].places[0].parts == ("flash", "amp")


def test_pairs_are_the_defaults_every_part_and_every_two_that_fit_together(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(pairs={"flash": {"step": "flash"}, "liger": {"layers": "liger"}, "compiled": {"step_norm": "compiled"}})
    arms = arms_of(suite.to_data())
    assert [arm.places[0].parts for arm in arms] == [
        (), ("flash",), ("liger",), ("compiled",), ("flash", "liger"), ("flash", "compiled"),
    ]  # fmt: skip
    assert dict(arms[-1].subject) == subject(step="flash", step_norm="compiled")


def test_equal_subjects_are_one_case_with_all_its_places_and_the_name_that_one_of_them_gives(
    load: LoadSteps, steps: Catalogue
) -> None:
    suite = load(
        arms=[{}, {"name": "best", "step": "flash", "layers": "liger"}],
        ladder=[{"step": "flash"}, {"layers": "liger"}],
        pairs={"flash": {"step": "flash"}, "liger": {"layers": "liger"}},
    )
    assert len(subjects(suite, steps)) == 4
    best = next(arm for arm in arms_of(suite.to_data()) if arm.label == "best")
    assert [(place.key, place.position) for place in best.places] == [("arms", 1), ("ladder", 2), ("pairs", 3)]


def test_a_suite_comes_back_from_its_stored_data_with_the_same_arms(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(
        defaults={"step": "flash"},
        arms=[{"name": "best", "layers": ["liger", "compiled"]}],
        ladder=[{"name": "amp", "step_precision": "bf16_amp"}],
        leave_one_out={"liger": {"layers": "liger"}},
        baseline={},
        search={"axis": "size", "until": "oom", "from": 2, "to": 64, "step": 2},
        sweep={"pass": "forward", "memory_limit": ["1GB", "none"]},
        pairs={"liger": {"layers": "liger"}},
    )
    again = suite_from_data(json.loads(json.dumps(suite.to_data())), steps)
    assert again.to_data() == suite.to_data()
    assert expand(again, steps, device="cpu").cases == expand(suite, steps, device="cpu").cases


def test_a_stored_shorthand_means_what_it_meant_when_it_was_stored(load: LoadSteps, steps: Catalogue) -> None:
    data = load(arms=[{"layers": "liger"}]).to_data()
    data["shorthands"] = {"layers=liger": {"step_norm": "liger"}}
    assert subjects(suite_from_data(data, steps), steps) == [subject(step_norm="liger")]


def test_labels_are_made_of_stored_data_alone_and_of_a_single_slot_stay_what_they_were(load: LoadSteps) -> None:
    label = label_of(json.loads(json.dumps(load(arms=[{"name": "best", "layers": "liger"}]).to_data())))
    assert label(subject()) == "defaults"
    assert label(subject(step_norm="liger", step_rope="liger")) == "best"
    assert label(subject(step_precision="bf16_amp", step="flash")) == "step=flash step_precision=bf16_amp"
    assert label_of({"subjects": {"attention": ["eager"]}})({"attention": "eager"}) == "eager"
    assert label_of({})({"norm": "liger", "mlp": "eager"}) == "mlp=eager norm=liger"


@pytest.mark.parametrize("junk", [None, 3, "x", [3], [[3]], {"a": 3}, {"a": [3]}, {"a": {"b": 3}}, [{"a": [None]}], {"a": "b"}])
def test_stored_data_of_another_form_names_no_arm_and_breaks_no_label(junk: Any) -> None:
    for key in ("defaults", "shorthands", "subjects", "arms", "ladder", "leave_one_out", "pairs"):
        arms_of({key: junk})
        assert label_of({key: junk})({"norm": "liger", "mlp": "eager"}) == "mlp=eager norm=liger"


def test_a_product_without_end_ends(load: LoadSteps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.suite.arms.MAX_ARMS", 3)
    monkeypatch.setattr("bench.suite.check_arms.MAX_ARMS", 3)
    assert len(arms_of({"subjects": {f"slot{number}": ["a", "b", "c"] for number in range(40)}})) == 4
    (found,) = problems(load, subjects={"step": ["plain", "flash", "raises"], "step_norm": ["plain", "liger"]})
    assert "subjects: makes more than 3 subjects" in found


def test_the_data_of_a_suite_without_arms_is_what_it_was(load: LoadSteps, write: Write, catalogue: Catalogue) -> None:
    data = load_suite(write(), catalogue).to_data()
    assert list(data) == [
        "schema", "name", "question", "workload", "subjects", "baseline", "under_test", "sweep", "exclude", "threads", "protocol",
    ]  # fmt: skip


def test_a_baseline_needs_to_say_only_what_differs_and_is_stored_whole(load: LoadSteps) -> None:
    assert load(arms=[{}, {"layers": "liger"}], baseline={}).baseline == subject()
    assert load(arms=[{}, {"layers": "liger"}], baseline={"layers": "liger"}).baseline == subject(
        step_norm="liger", step_rope="liger"
    )


def test_the_slot_that_decides_the_dtype_makes_points_of_its_own(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(arms=[{}, {"step_precision": "bf16_amp"}, {"step": "flash"}])
    cases = expand(suite, steps, device="cpu").cases
    assert [(case.dtype, case.subject["step"]) for case in cases] == [("fp32", "plain"), ("fp32", "flash"), ("bf16", "plain")]
    assert len({case.point_key for case in cases}) == 2
    assert len(subjects(suite, steps, "dtype=bf16")) == 1
    with pytest.raises(SelectionError, match="no case has dtype=fp16; there are: fp32, bf16"):
        subjects(suite, steps, "dtype=fp16")


def test_an_implementation_that_decides_the_dtype_must_declare_one(load: LoadSteps, steps: Catalogue) -> None:
    with pytest.raises(
        SuiteError, match="undecided decides the dtype of its case, so it must declare one dtype; it declares bf16, fp16"
    ):
        subjects(load(arms=[{"step_precision": "undecided"}]), steps)


def test_filters_choose_arms_by_any_slot(load: LoadSteps, steps: Catalogue) -> None:
    suite = load(pairs={"flash": {"step": "flash"}, "liger": {"layers": "liger"}})
    assert subjects(suite, steps, "step=flash", "step_norm=liger") == [subject(step="flash", step_norm="liger", step_rope="liger")]


def test_a_profile_replaces_arms_and_a_setting_may_change_the_defaults(load: LoadSteps, steps: Catalogue) -> None:
    profiles = {"cpu": {"arms": [{"step": "flash"}], "ladder": None}}
    suite = load(arms=[{}], ladder=[{"layers": "liger"}], profiles=profiles, profile="cpu", sets=("defaults.step_norm=compiled",))
    assert subjects(suite, steps) == [subject(step="flash", step_norm="compiled")]


def test_a_word_that_is_parameter_and_shorthand_is_the_parameter_where_it_stands_alone(load: LoadSteps, steps: Catalogue) -> None:
    assert load(arms=[{}], sets=("layers=3",)).sweep["layers"] == (3,)
    assert subjects(load(subjects={"step": ["plain"]}, sets=("fused=liger",)), steps) == [
        subject(step_norm="liger", step_rope="liger")
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "subjects: is missing: say what is compared (subjects, or arms, ladder, leave_one_out, pairs)"),
        ({"subjects": {"step": ["plain"]}, "arms": [{}]}, ":6: subjects.step: subjects cannot stand beside arms"),
        ({"arms": []}, "arms: must not be empty"),
        ({"arms": {"step": "flash"}}, "arms: must be a list"),
        ({"arms": [3]}, ":11: arms[0]: must be a mapping, not 3"),
        ({"arms": [{"step": "flsh"}]}, ":11: arms[0].step: unknown implementation 'flsh'; known: plain, flash"),
        ({"arms": [{"step": ["plain", "flsh"]}]}, ":13: arms[0].step[1]: unknown implementation 'flsh'"),
        ({"arms": [{"stp": "flash"}]}, "arms[0].stp: unknown slot of step 'stp'; known: step, step_norm, step_rope"),
        ({"arms": [{"stp": ["flash", "plain"]}]}, "arms[0].stp: unknown slot of step 'stp'"),
        ({"arms": [{"step": 3}]}, "arms[0].step: must be text, not 3"),
        ({"arms": [{"step": []}]}, "arms[0].step: must not be empty"),
        ({"arms": [{"step": ""}]}, "arms[0].step: unknown implementation ''"),
        ({"arms": [{"layers": "ligr"}]}, "arms[0].layers: no slot of layers (step_norm, step_rope) has it: unknown implementation 'ligr'"),
        ({"arms": [{"name": ""}]}, "arms[0].name: must be text that can be read"),
        ({"arms": [{"name": "a"}, {"name": "a", "step": "flash"}]}, "arms[1].name: two arms would be called 'a'"),
        ({"arms": [{}, {"name": "defaults", "step": "flash"}]}, "arms[1].name: two arms would be called 'defaults'"),
        ({"ladder": [{"step": ["plain", "flash"]}]}, "ladder[0].step: takes one implementation, not a list"),
        (
            {"ladder": [{"name": "a", "step": "flash"}, {"name": "a", "layers": "liger"}]},
            "ladder[1].name: there is a step named 'a' already",
        ),
        ({"pairs": {"a": {"step": "flsh"}}}, "pairs.a.step: unknown implementation 'flsh'"),
        ({"pairs": {"a": {"name": "x"}}}, "pairs.a.name: unknown slot of step 'name'"),
        ({"pairs": {}}, "pairs: must not be empty"),
        ({"pairs": {str(n): {"step": "flash"} for n in range(101)}}, "pairs: must have at most 100 entries"),
        ({"pairs": ["a"]}, "pairs: must be a mapping"),
        (
            {"leave_one_out": {"a": {"step": "flash"}, "b": {"step": "plain"}}},
            "leave_one_out.b: fills a slot that a fills in another way, so they are never together",
        ),
        ({"arms": [{}], "defaults": {"step": "flsh"}}, "defaults.step: unknown implementation 'flsh'"),
        ({"arms": [{}], "defaults": {"step": 3}}, "defaults.step: must be text, not 3"),
        ({"arms": [{}], "defaults": {"stp": "plain"}}, "defaults.stp: unknown slot of step 'stp'"),
        ({"arms": [{}], "baseline": {"step": "flash"}}, "baseline: step=flash is none of the arms (defaults); name one of them"),
        ({"arms": [{}], "baseline": {"step": "flsh"}}, "baseline.step: unknown implementation 'flsh'"),
        ({"arms": [{}], "sweep": {**SUITE["sweep"], "dtype": "fp32"}}, "the dtype of step follows from the slot step_precision"),
        ({"subjects": {"layers": ["ligr"]}}, "subjects.layers[0]: no slot of layers (step_norm, step_rope) has it"),
        ({"arms": [{}], "lader": []}, "lader: unknown key; known: schema, name, question"),
    ],
)  # fmt: skip
def test_a_mistake_in_arms_is_told_where_it_is(load: LoadSteps, changes: dict[str, Any], message: str) -> None:
    (found,) = problems(load, **changes)
    assert message in found


def test_a_slot_without_default_must_be_filled_by_every_arm(write: Write, catalogue: Catalogue) -> None:
    with pytest.raises(SuiteError, match=r"arms\[1\]: the slot attention of attention is not filled, and has no default"):
        load_suite(write(subjects=None, arms=[{"attention": "eager"}, {}]), catalogue)
    suite = load_suite(write(subjects=None, arms=[{"attention": "eager"}, {"attention": "flex"}]), catalogue)
    assert labels(suite) == ["eager", "flex"]


def test_mistakes_of_arms_are_told_with_all_the_others(load: LoadSteps) -> None:
    found = problems(load, arms=[{"step": "flsh"}], pairs={"a": {"layer": "liger"}}, sweep={"size": ["x"]}, threads=0)
    assert len(found) == 5


def test_the_key_of_a_case_that_has_no_new_axis_is_what_it_was(write: Write, catalogue: Catalogue) -> None:
    import dataclasses

    case = expand(load_suite(write(), catalogue), catalogue, device="cpu").cases[0]
    case = dataclasses.replace(case, workload_version=1)
    assert case.key == "f3158388e6b293a4515fd3957a20fbde0e0faeddf7780cf7f775865a365f6e4c"


def test_a_cap_on_memory_is_a_parameter_of_the_cases_that_have_one(write: Write, catalogue: Catalogue) -> None:
    sweep = {"model": "tiny", "seq_len": 16, "batch": 1, "dtype": "fp32", "pass": "forward"}
    plain = expand(load_suite(write(sweep=sweep), catalogue), catalogue, device="cuda").cases
    suite = load_suite(write(sweep={**sweep, "memory_limit": [24, "24 GB", "16GiB", "none"]}), catalogue)
    assert suite.sweep["memory_limit"] == ("24GB", "16GiB", "none")
    cases = expand(suite, catalogue, device="cuda").cases
    assert [case.params.get("memory_limit_bytes") for case in cases[::2]] == [24 * 10**9, 2**34, None]
    assert cases[4:] == plain
    again = suite_from_data(json.loads(json.dumps(suite.to_data())), catalogue)
    assert expand(again, catalogue, device="cuda").cases == cases


def only(suite: Suite, catalogue: Catalogue, text: str) -> list[Case]:
    return list(expand(suite, catalogue, device="cuda", filters=parse_filters([text])).cases)


def test_rules_and_filters_take_a_cap_on_memory_as_it_is_written(write: Write, catalogue: Catalogue) -> None:
    sweep = {"model": "tiny", "seq_len": [16, 32], "batch": 1, "dtype": "fp32", "pass": "forward", "memory_limit": ["16GB", "none"]}
    suite = load_suite(write(sweep=sweep, exclude=[{"memory_limit": "16GB", "seq_len": 32}]), catalogue)
    assert len(expand(suite, catalogue, device="cuda").cases) == 6
    assert {case.params["memory_limit_bytes"] for case in only(suite, catalogue, "memory_limit=16 GB")} == {16 * 10**9}
    assert all("memory_limit_bytes" not in case.params for case in only(suite, catalogue, "memory_limit=none"))
    with pytest.raises(SelectionError, match="no case has memory_limit=80GB; there are: 16GB, none"):
        only(suite, catalogue, "memory_limit=80GB")
    with pytest.raises(SuiteError, match=r"sweep\.memory_limit: memory_limit must be below 1000TB, not '5000TB'"):
        load_suite(write(sweep={**sweep, "memory_limit": "5000TB"}), catalogue)
    with pytest.raises(SuiteError, match=r"sweep\.memory_limit: '3 apples' is not a size; write 80GB .* or none for all"):
        load_suite(write(sweep={**sweep, "memory_limit": "3 apples"}), catalogue)


def test_the_plugin_of_these_tests_is_a_valid_workload(tmp_path: Path) -> None:
    assert set(catalogue_in(tmp_path).workloads) > {"step"}
