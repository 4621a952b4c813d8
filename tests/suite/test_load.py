"""A suite is valid against the catalogue, or every mistake in it is told with line, key and nearest word."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.catalogue import Catalogue
from bench.errors import SuiteError
from bench.records import Protocol
from bench.suite import Suite, load_suite, suite_from_data
from bench.suite.arms import COMBINED
from bench.suite.model import ProtocolForm
from tests.suite.conftest import PLAIN, Load

SUITES = sorted((Path(__file__).parents[2] / "suites").glob("*.yaml"))


def mistakes(load: Load, *args: Any, **changes: Any) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        load(*args, **changes)
    return [line.split("suite.yaml", 1)[-1] for line in str(caught.value).splitlines()]


def one_mistake(load: Load, *args: Any, **changes: Any) -> str:
    found = mistakes(load, *args, **changes)
    assert len(found) == 1, found
    return found[0]


def sweep(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**PLAIN["sweep"], **changes}.items() if value is not None}


def test_a_plain_suite_is_loaded_in_its_own_order(load: Load) -> None:
    suite = load()
    assert suite.subjects == {"attention": ("eager", "sdpa_flash")}
    assert list(suite.sweep) == ["model", "seq_len", "batch", "dtype", "pass"]
    assert suite.protocol == Protocol()
    assert suite.threads == 1
    assert suite.baseline is None


def test_a_lone_value_stands_for_a_list_of_one(load: Load) -> None:
    suite = load(subjects={"attention": "eager"}, under_test="torch", sweep=sweep(seq_len=128, dropout=0))
    assert suite.subjects == {"attention": ("eager",)}
    assert suite.under_test == ("torch",)
    assert suite.sweep["seq_len"] == (128,)
    assert suite.sweep["dropout"] == (0.0,)
    assert type(suite.sweep["dropout"][0]) is float


def test_values_given_twice_count_once(load: Load) -> None:
    suite = load(subjects={"attention": ["eager", "eager"]}, sweep=sweep(seq_len=[128, 128], dropout=[0, 0.0]))
    assert suite.subjects["attention"] == ("eager",)
    assert suite.sweep["seq_len"] == (128,)
    assert suite.sweep["dropout"] == (0.0,)


def test_all_mistakes_of_a_file_are_one_message(load: Load) -> None:
    text = """\
schema: 2
name: "  "
quesion: hm
workload: attention
subjects:
  attention: [eager, sdpa_flsh]
baseline: {attention: eagr}
sweep:
  model: [llama-3-8]
  seq_len: [512, x, 0]
  batch: {token: 3}
  dtype: bf61
  pas: forward
exclude:
  - {attenion: eager}
  - {seq_len: {gtt: 1}}
protocol: {trials: 0, timeout: 3}
threads: true
"""
    starts = [
        ": question: is missing",
        ":1: schema: must be 1, not 2",
        ":2: name: must not be blank",
        ":3: quesion: unknown key; known: schema, name, question",
        ":6: subjects.attention[1]: unknown implementation 'sdpa_flsh'; known: eager",
        ":7: baseline.attention: 'eagr' is not among the subjects (eager)",
        ":8: sweep: says nothing about pass",
        ":9: sweep.model[0]: unknown model 'llama-3-8'; known: tiny",
        ":10: sweep.seq_len[1]: seq_len must be a whole number, not 'x'",
        ":10: sweep.seq_len[2]: seq_len must be at least 1, not 0",
        ":11: sweep.batch: a derived batch is written {tokens: N}",
        ":12: sweep.dtype: unknown dtype 'bf61'; known: fp32, tf32, bf16",
        ":13: sweep.pas: unknown axis 'pas'; known: model, seq_len",
        ":15: exclude[0].attenion: unknown axis 'attenion'",
        ":16: exclude[1].seq_len.gtt: unknown operator 'gtt'; known: gt, ge",
        ":17: protocol.trials: must be at least 1, not 0",
        ":17: protocol.timeout: unknown key",
        ":18: threads: must be a whole number, not True",
    ]
    found = mistakes(load, text)
    assert len(found) == len(starts), found
    for start in starts:
        assert any(line.startswith(start) for line in found), (start, found)
    suggestions = {word for line in found for word in [line.rsplit("did you mean ", 1)[-1].strip("?)'")] if "did you mean" in line}
    assert suggestions == {"question", "sdpa_flash", "eager", "llama-3-8b", "bf16", "pass", "attention", "gt", "timeout_s"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"workload": "atention"},
            ":4: workload: unknown workload 'atention'; known: attention, ",
        ),
        ({"workload": 3}, ":4: workload: must be text, not 3"),
        ({"name": None}, ": name: is missing"),
        ({"name": "x" * 301}, ":2: name: must have at most 300 characters"),
        ({"question": ""}, ":3: question: must not be blank"),
        ({"subjects": {}}, ":5: subjects: must not be empty"),
        ({"subjects": {"attention": []}}, ":6: subjects.attention: must not be empty"),
        ({"subjects": {"attention": [3]}}, ":7: subjects.attention[0]: must be text, not 3"),
        ({"subjects": ["eager"]}, ":5: subjects: must be a mapping"),
        ({"baseline": "eager"}, "baseline: must be a mapping, not 'eager'"),
        ({"baseline": {}}, "baseline: the slot attention is missing: a baseline names one implementation for each slot"),
        (
            {"baseline": {"attention": "flex"}},
            "'flex' is not among the subjects (eager, sdpa_flash); name one of them, or no baseline",
        ),
        ({"sweep": 3}, "sweep: must be a mapping, not 3"),
        ({"sweep": sweep(seq_len=[])}, "sweep.seq_len: is empty; give at least one value, or leave the axis out"),
        ({"sweep": sweep(seq_len=None)}, "sweep: says nothing about seq_len, and attention has no default for that"),
        ({"sweep": sweep(model=None)}, "sweep: says nothing about model, and attention has no default for that"),
        ({"sweep": sweep(seq_len=[None])}, "seq_len must be a whole number, not None"),
        ({"sweep": sweep(seq_len=[True])}, "seq_len must be a whole number, not True"),
        ({"sweep": sweep(seq_len={"gt": 3})}, "seq_len must be a whole number, not {'gt': 3}"),
        ({"sweep": sweep(seq_len=[[128]])}, "seq_len must be a whole number, not [128]"),
        ({"sweep": sweep(dropout=[1.0])}, "dropout must be below 1, not 1.0"),
        ({"sweep": sweep(dropout=[-0.1])}, "dropout must be at least 0, not -0.1"),
        (
            {"sweep": sweep(mask=["casual"])},
            "unknown mask 'casual'; known: causal, full, sliding_window, document (did you mean 'causal'?)",
        ),
        ({"sweep": sweep(cache="hot")}, "unknown cache 'hot'; known: warm, cold"),
        ({"sweep": sweep(timer="clock")}, "unknown timer 'clock'; known: wall, events, cuda_graph"),
        ({"sweep": sweep(world_size=0)}, "world_size must be at least 1, not 0"),
        ({"sweep": sweep(world_size=5000)}, "world_size must be below 4097"),
        ({"sweep": sweep(dtype=32)}, "dtype must be text, not 32; known: fp32"),
        ({"sweep": sweep(device="cpu")}, "unknown axis 'device'"),
        ({"sweep": sweep(batch={"tokens": []})}, "tokens is empty"),
        ({"sweep": sweep(batch={"tokens": 0})}, "tokens must be at least 1, not 0"),
        ({"sweep": sweep(batch={"tokens": "many"})}, "tokens must be a whole number, not 'many'"),
        ({"sweep": sweep(model={"heads": [2]})}, "a varied model is written {from: NAME, FIELD: [VALUES]}"),
        ({"sweep": sweep(model={"from": "tinny"})}, "unknown model 'tinny'"),
        ({"sweep": sweep(model={"from": "tiny", "heads": []})}, "sweep.model.heads: is empty"),
        ({"sweep": sweep(model={"from": "tiny", "heads": ["x"]})}, "sweep.model.heads: heads must be a whole number, not 'x'"),
        (
            {"sweep": sweep(model={"from": "tiny", "hidden_size": 8})},
            "attention does not depend on 'hidden_size'; it takes heads, kv_heads, ",
        ),
        ({"sweep": sweep(model="tiny(heads=2)")}, "unknown model 'tiny(heads=2)'"),
        ({"exclude": {"dtype": "fp32"}}, "exclude: must be a list"),
        ({"exclude": [3]}, "exclude[0]: must be a mapping, not 3"),
        ({"exclude": [{}]}, "exclude[0]: an empty rule would exclude everything"),
        ({"exclude": [{"seq_len": {}}]}, "exclude[0].seq_len: says nothing; operators: gt, ge"),
        ({"exclude": [{"seq_len": []}]}, "exclude[0].seq_len: is empty"),
        ({"exclude": [{"seq_len": {"in": 3}}]}, "exclude[0].seq_len.in: takes a list"),
        ({"exclude": [{"seq_len": {"in": []}}]}, "exclude[0].seq_len.in: is empty"),
        ({"exclude": [{"seq_len": {"gt": "x"}}]}, "exclude[0].seq_len.gt: seq_len must be a whole number"),
        ({"exclude": [{"dtype": {"gt": "bf16"}}]}, "exclude[0].dtype.gt: dtype has no order"),
        ({"exclude": [{"attention": "egar"}]}, "unknown attention 'egar'"),
        ({"exclude": [{"dtype": ["fp32", "fp33"]}]}, "exclude[0].dtype[1]: unknown dtype 'fp33'"),
        ({"profiles": {"cpu": 3}}, "profiles.cpu: must be a mapping, not 3"),
        ({"profiles": {"cpu": {"name": "other"}}}, "profiles.cpu.name: a profile cannot change name"),
        ({"profiles": {"cpu": {"seqlen": 3}}}, "profiles.cpu.seqlen: unknown axis 'seqlen'"),
        ({"profiles": {"cpu": {"protocl": {}}}}, "(did you mean 'protocol'?)"),
        ({"profiles": {"cpu": {"atention": ["eager"]}}}, "(did you mean 'attention'?)"),
        ({"profiles": {"cpu": {"dtype": "fp33"}}}, "profiles.cpu.dtype: unknown dtype 'fp33'"),
        ({"profiles": {"cpu": {"protocol": {"trials": "x"}}}}, "profiles.cpu.protocol.trials: must be a whole number, not 'x'"),
        ({"protocol": {"host_memory_limit": "3 apples"}}, "protocol.host_memory_limit: '3 apples' is not a size"),
        ({"protocol": {"host_memory_limit": 1, "host_memory_limit_bytes": 5}}, "say the same thing; give one"),
        (
            {"protocol": {"min_samples": 100, "max_samples": 10}},
            "protocol: max_samples (10) is less than min_samples (100): give both",
        ),
        ({"protocol": {"min_sampling_s": 9}}, "protocol: max_sampling_s (3) is less than min_sampling_s (9): give both"),
        ({"protocol": {"timeout_s": 0}}, "protocol.timeout_s: must be greater than 0, not 0"),
        ({"protocol": {"timeout_s": "120"}}, "protocol.timeout_s: must be a number, not '120'"),
        ({"threads": 0}, "threads: must be at least 1, not 0"),
        ({"under_test": [""]}, "under_test[0]: must not be empty"),
    ],
)
def test_a_mistake_is_told_where_it_is(load: Load, changes: dict[str, Any], message: str) -> None:
    assert message in one_mistake(load, **changes)


def test_a_file_that_is_no_mapping_is_told_so(load: Load) -> None:
    assert one_mistake(load, "") == ": is empty"
    assert "must be a mapping" in one_mistake(load, "- 1\n")
    assert "must be a mapping" in one_mistake(load, "just words\n")


def test_a_missing_file_names_its_neighbour(catalogue: Catalogue) -> None:
    with pytest.raises(SuiteError, match=r"atention\.yaml: there is no such file \(did you mean '.*attention\.yaml'\?\)"):
        load_suite(SUITES[0].with_name("atention.yaml"), catalogue)
    with pytest.raises(SuiteError, match=r"there is no such file$"):
        load_suite(Path("/no/such/folder/suite.yaml"), catalogue)


def test_hundreds_of_mistakes_are_cut(load: Load) -> None:
    found = mistakes(load, sweep=sweep(seq_len=[-number for number in range(1, 200)]))
    assert len(found) == 51
    assert found[-1].endswith("and 149 more")


def test_a_profile_changes_key_by_key(load: Load) -> None:
    profiles = {
        "cpu": {
            "seq_len": [64],
            "subjects": {"attention": ["eager"]},
            "protocol": {"trials": 2},
            "sweep": {"dropout": 0.1},
            "threads": 2,
            "baseline": {"attention": "eager"},
        },
        "slot": {"attention": ["sdpa_flash"]},
    }
    protocol = {"trials": 7, "timeout_s": 9}
    base = load(profiles=profiles, protocol=protocol)
    assert base.sweep["seq_len"] == (128, 256)
    assert base.profiles == profiles
    suite = load(profiles=profiles, protocol=protocol, profile="cpu")
    assert suite.sweep["seq_len"] == (64,)
    assert suite.sweep["dropout"] == (0.1,)
    assert suite.sweep["dtype"] == ("fp32",)
    assert suite.subjects == {"attention": ("eager",)}
    assert (suite.protocol.trials, suite.protocol.timeout_s) == (2, 9.0)
    assert suite.threads == 2
    assert load(profiles=profiles, profile="slot").subjects == {"attention": ("sdpa_flash",)}


def test_an_unknown_profile_is_answered_with_the_nearest(load: Load) -> None:
    message = one_mistake(load, profiles={"cpu": {}, "quick": {}}, profile="qick")
    assert message.endswith("profiles: there is no profile 'qick'; known: cpu, quick (did you mean 'quick'?)")
    assert "known: none" in one_mistake(load, profile="cpu")


def test_a_mistake_in_another_profile_is_told_too(load: Load) -> None:
    assert "profiles.b.dtype" in one_mistake(load, profiles={"a": {}, "b": {"dtype": "fp33"}}, profile="a")


def test_a_profile_may_give_what_the_suite_leaves_open(load: Load) -> None:
    profiles = {"cpu": {"seq_len": [64]}}
    assert load(profiles=profiles, sweep=sweep(seq_len=None), profile="cpu").sweep["seq_len"] == (64,)
    assert "says nothing about seq_len" in one_mistake(load, profiles=profiles, sweep=sweep(seq_len=None))


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("protocol.trials=3", "protocol.trials", 3),
        ("protocol={trials: 4}", "protocol.trials", 4),
        ("protocol.host_memory_limit=2GiB", "protocol.host_memory_limit_bytes", 2**31),
        ("threads=2", "threads", 2),
        ("seq_len=128,512", "sweep.seq_len", (128, 512)),
        ("seq_len=64", "sweep.seq_len", (64,)),
        ("sweep.seq_len=64", "sweep.seq_len", (64,)),
        ("dtype=[bf16]", "sweep.dtype", ("bf16",)),
        ("dtype=bf16, fp16", "sweep.dtype", ("bf16", "fp16")),
        ("dropout=0", "sweep.dropout", (0.0,)),
        ("dropout=1e-1", "sweep.dropout", (0.1,)),
        ("batch.tokens=1024", "sweep.batch", ({"tokens": 1024},)),
        ("batch={tokens: [1024, 2048]}", "sweep.batch", ({"tokens": 1024}, {"tokens": 2048})),
        ("model={from: tiny, heads: [2, 4]}", "sweep.model", ({"from": "tiny", "heads": [2, 4]},)),
        ("attention=eager", "subjects.attention", ("eager",)),
        ("subjects.attention=eager,flex", "subjects.attention", ("eager", "flex")),
        ("baseline.attention=eager", "baseline.attention", "eager"),
        ("under_test=torch,triton", "under_test", ("torch", "triton")),
        ("exclude=[{seq_len: 128}]", "exclude", ({"seq_len": 128},)),
    ],
)
def test_a_setting_is_laid_over_the_file(load: Load, setting: str, path: str, value: Any) -> None:
    found: Any = load(sets=(setting,))
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_a_setting_comes_after_the_profile_and_the_last_one_wins(load: Load) -> None:
    suite = load(profiles={"cpu": {"seq_len": [64]}}, profile="cpu", sets=("seq_len=32", "seq_len=16"))
    assert suite.sweep["seq_len"] == (16,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trials=3", "--set: trials: trials belongs to the protocol (did you mean 'protocol.trials'?)"),
        ("nonsense", "--set: write key=value, not 'nonsense'"),
        ("=3", "--set: write key=value"),
        ("a..b=3", "--set: write key=value"),
        ("name=other", "--set: name: name says which suite it is and cannot be set"),
        ("seqlen=3", "--set: seqlen: unknown axis 'seqlen'"),
        ("protcol.trials=3", "--set: protcol.trials: unknown axis 'protcol'"),
        ("seq_len=", "--set: seq_len: seq_len must be a whole number, not None"),
        ("seq_len=1,,2", "--set: seq_len: seq_len must be a whole number, not None"),
        ("seq_len=[1", "--set: seq_len: not valid YAML"),
        ("protocol.trial=3", "--set: protocol.trial: unknown key"),
        ("protocol=3", "--set: protocol: must be a mapping, not 3"),
        ("attention=egar", "--set: attention: unknown implementation 'egar'"),
        ("threads=two", "--set: threads: must be a whole number, not 'two'"),
        ("subjects.norm=eager", "--set: subjects.norm: unknown slot of attention 'norm'"),
        ("protocol.trials.x=3", "--set: protocol.trials.x: must be a whole number"),
    ],
)
def test_a_bad_setting_is_told_as_one(load: Load, setting: str, message: str) -> None:
    assert message in one_mistake(load, sets=(setting,))


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", 'it\'s "quoted"; DROP TABLE run;--', "👩‍💻 emoji", "é" * 300, "{{ 7 * 7 }}", "../x"]
)
def test_hostile_names_are_names(load: Load, name: str) -> None:
    assert load(name=name, question=name).name == name


def test_unprintable_names_are_refused(load: Load) -> None:
    for char in ("\u202e", "\u2028", "\ufeff", "\n"):
        assert f"U+{ord(char):04X}" in one_mistake(load, name=f"a{char}b")


def test_the_protocol_of_a_file_is_the_protocol_of_the_records() -> None:
    names = {field.name for field in dataclasses.fields(Protocol)}
    assert set(ProtocolForm.model_fields) == names | {"host_memory_limit"}
    assert ProtocolForm.model_validate({}).protocol() == Protocol()


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_suites_of_this_repository_are_valid_with_every_profile(path: Path, catalogue: Catalogue) -> None:
    suite = load_suite(path, catalogue)
    assert suite.name == path.stem
    assert {"cpu", "quick", "published"} <= set(suite.profiles)
    for profile in suite.profiles:
        changed = load_suite(path, catalogue, profile=profile)
        assert suite_from_data(json.loads(json.dumps(changed.to_data())), catalogue).to_data() == changed.to_data()


def plain(suite: Suite) -> Suite:
    """Without what `to_data` leaves out."""
    return suite.model_copy(update={"profiles": {}, "file": None})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "model": st.lists(
                st.sampled_from(["tiny", "llama-3-8b"]) | st.just({"from": "tiny", "heads": [2, 4]}), min_size=1, max_size=3
            ),
            "seq_len": st.integers(1, 2**40) | st.lists(st.integers(1, 2**62), min_size=1, max_size=3),
            "dtype": st.lists(st.sampled_from(["fp32", "bf16"]), min_size=1),
            "pass": st.sampled_from(["forward", "backward"]),
        },
        optional={
            "dropout": st.floats(0, 0.99) | st.just(0),
            "batch": st.just({"tokens": [4, 8]}) | st.integers(1, 9),
            "world_size": st.integers(1, 8),
        },
    ),
    st.lists(st.fixed_dictionaries({"seq_len": st.fixed_dictionaries({"gt": st.integers(-5, 5)})}), max_size=2),
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=50),
)
def test_a_suite_comes_back_from_its_data(
    catalogue: Catalogue, sweep_data: dict[str, Any], exclude: list[dict[str, Any]], name: str
) -> None:
    data = {**PLAIN, "sweep": sweep_data, "exclude": exclude, "name": name}
    suite = suite_from_data(data, catalogue)
    again = suite_from_data(json.loads(json.dumps(suite.to_data())), catalogue)
    assert again == plain(suite)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["eager", "attention", "tiny", "gt"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["attention", "seq_len", "from", "tokens", "gt", "x", "model", "trials", "name", "axis"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [*PLAIN, "baseline", "exclude", "profiles", "protocol", "threads", "under_test", "defaults", "search", *COMBINED]
        ),
        junk,
    ),
    st.booleans(),
)
def test_junk_in_any_place_is_a_suite_or_a_suite_error(
    tmp_path_factory: pytest.TempPathFactory, catalogue: Catalogue, changes: dict[str, Any], set_too: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "junk.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **changes}, allow_unicode=True), encoding="utf-8", errors="replace")
    sets = [f"{key}={json.dumps(value)}" for key, value in changes.items()] if set_too else []
    try:
        assert isinstance(load_suite(path, catalogue, profile="attention" if set_too else None, sets=sets), Suite)
    except SuiteError as error:
        assert str(error)  # noqa: PT017 - the property is that nothing else escapes


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_setting_is_a_suite_or_a_suite_error(catalogue: Catalogue, key: str, value: str) -> None:
    try:
        load_suite(SUITES[0], catalogue, sets=[f"{key}={value}"])
    except SuiteError as error:
        assert str(error)  # noqa: PT017 - the property is that nothing else escapes


def test_data_of_an_implementation_that_is_gone_is_a_suite_error(load: Load, catalogue: Catalogue) -> None:
    data = load().to_data()
    data["subjects"] = {"attention": ["was_here"]}
    with pytest.raises(SuiteError, match=r"^subjects\.attention\[0\]: unknown implementation 'was_here'"):
        suite_from_data(data, catalogue)


def test_a_setting_that_no_case_uses_is_an_error_that_names_it_and_its_owner(load: Load) -> None:
    with pytest.raises(SuiteError) as caught:
        load(sets=("window=64",))
    (problem,) = caught.value.problems
    assert (problem.file, problem.key) == ("--set", "window")
    assert "no case of this suite uses window: it belongs to mask=sliding_window alone" in problem.message


def test_the_same_setting_is_right_where_a_case_uses_it_and_no_mistake_in_a_file(load: Load) -> None:
    assert load(sets=("window=64", "mask=sliding_window,causal")).sweep["window"] == (64,)
    assert load(sweep={**PLAIN["sweep"], "window": [64]}).sweep["window"] == (64,)
