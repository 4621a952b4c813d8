"""The claims that are shipped can be answered as they say, and mistakes in such files are told with their place."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import pytest

from bench.catalogue import Catalogue, load_catalogue
from bench.errors import SuiteError
from bench.judge.claim_files import load_claims
from bench.judge.claim_numbers import standing
from bench.judge.claim_records import ANY_DEVICE, ANY_GPU, Claim, Measured
from bench.judge.claims import judge_claim, measuring_command
from bench.machine.datasheet import _SHEETS
from bench.records import Case
from bench.suite import Suite, expand, label_of, load_suite, parse_filters
from tests import factories

FOLDER = Path("suites/claims")
CLAIMS = load_claims(FOLDER)
MEASURED = [claim for claim in CLAIMS if claim.measured_by is not None]


@cache
def catalogue() -> Catalogue:
    return load_catalogue()


@cache
def suite(name: str, profile: str | None) -> Suite:
    return load_suite(Path("suites") / f"{name}.yaml", catalogue(), profile=profile)


def cases(by: Measured) -> list[Case]:
    """What the command that a claim prints would measure."""
    words = shlex.split(measuring_command(by))
    filters = [words[place + 1] for place, word in enumerate(words) if word == "--filter"]
    device = words[words.index("--device") + 1] if "--device" in words else "cuda"
    return list(expand(suite(by.suite, by.profile), catalogue(), device=device, filters=parse_filters(filters)).cases)


def test_there_are_many_claims_and_those_that_the_question_began_with_come_first() -> None:
    assert len(CLAIMS) >= 45
    assert CLAIMS[0].id == "copy-32gb"
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", MEASURED, ids=[claim.id for claim in MEASURED])
def test_the_command_of_a_claim_measures_each_of_its_sides_at_one_place(claim: Claim) -> None:
    by = claim.measured_by
    assert by is not None
    label, found = label_of(suite(by.suite, by.profile).to_data()), cases(by)
    for subject, where in by.sides():
        mine = [case for case in found if label(case.subject) == subject and standing(factories.result(of=case), where)]
        if by.along is None:
            assert len(mine) == 1
        else:
            assert len({case.axis_value(by.along) for case in mine}) >= 3


def test_a_claim_carries_over_to_hardware_that_the_table_of_data_sheets_knows() -> None:
    known = {ANY_DEVICE, ANY_GPU, *(sheet.model for _, sheet in _SHEETS)}
    named = {word for claim in CLAIMS for word in claim.carries_over_to}
    assert named - known <= {"A100 SXM 80GB", "H100 PCIe"}
    assert named & known >= {ANY_DEVICE, ANY_GPU, "H200 SXM"}


def test_every_claim_that_is_arithmetic_is_computed_and_marked_so() -> None:
    computed = [judge_claim(claim, ()) for claim in CLAIMS if claim.computed_by is not None]
    assert len(computed) >= 15
    assert all(finding.ours is not None and finding.ours.computed and not finding.ours.rows for finding in computed)
    wrong = [finding.claim.id for finding in computed if finding.word != "reproduced"]
    assert wrong == ["estimator-zero2-t5"]  # its documentation has an older formula


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "some.yaml").write_text(text)
    return tmp_path


CLAIM = """schema: 1
name: some
about: Is it so?
defaults:
  {source: a page, made_on: H100 SXM, configuration: as there, kind: figure, unit: ms, measured_by: {suite: attention, metric: time_s}}
claims:
"""


def test_what_a_file_says_for_all_its_claims_is_laid_under_each() -> None:
    twelve = next(claim for claim in CLAIMS if claim.id == "fa2-both-64-full-512")
    assert twelve.measured_by is not None
    assert twelve.measured_by.where == {"dtype": "fp16", "pass": "forward_backward", "head_dim": 64, "mask": "full", "seq_len": 512}
    assert twelve.band == (215e12 * 0.9, 215e12 * 1.05)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("  - {id: a, says: x, expected: 3, measured_by: {of: eager, metrik: y}}", "metrik"),
        ("  - {id: a, says: x, expectd: 3, measured_by: {of: eager}}", "did you mean 'expected'"),
        ("  - {id: a, says: x, expected: 3, measured_by: {of: eager, metric: tme_s}}", "did you mean 'time_s'"),
        ("  - {id: a, says: x, expected: 3, unit: parsec, measured_by: {of: eager}}", "unit 'parsec' is not known"),
        ("  - {id: a, says: x, expected: lower, measured_by: {of: eager}}", "an ordering expects lower or higher"),
        ("  - {id: a, says: x, kind: ratio, expected: 3, measured_by: {of: eager}}", "`over`"),
        ("  - {id: a, says: x, kind: exponent, expected: 2, measured_by: {of: eager}}", "`along`"),
        ("  - {id: a, says: x, expected: {}, measured_by: {of: eager}}", "at_least, at_most"),
        ("  - {id: a, says: x, expected: 3, tolerance: [0.1, 0.2], measured_by: {of: eager}}", "from below or at zero"),
        ("  - {id: a, says: x, expected: 3, computed_by: {formula: guess}}", "no formula is called 'guess'"),
        (
            "  - {id: a, says: x, expected: 3, computed_by: {formula: bytes_each, arguments: {paramters: 1}}}",
            "computed_by.arguments",
        ),
        ("  - {id: A b, says: x, expected: 3, measured_by: {of: eager}}", "id"),
        ("  - {id: a, expected: 3, measured_by: {of: eager}}", "says is missing"),
        ("  - nothing", "must be a mapping"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(tmp_path: Path, entry: str, words: str) -> None:
    with pytest.raises(SuiteError) as raised:
        load_claims(write(tmp_path, CLAIM + entry + "\n"))
    assert words in str(raised.value)
    assert "some.yaml:7" in str(raised.value)


def test_all_mistakes_of_all_files_come_at_once(tmp_path: Path) -> None:
    write(tmp_path, CLAIM + "  - {id: a, says: x, expected: 3, measured_by: {of: eager}}\n" * 2)
    (tmp_path / "other.yaml").write_text("schema: 2\n")
    with pytest.raises(SuiteError) as raised:
        load_claims(tmp_path)
    assert "a is the id of another claim already" in str(raised.value)
    assert "other.yaml" in str(raised.value)


def test_a_folder_without_claims_is_told() -> None:
    with pytest.raises(SuiteError, match="no file of claims"):
        load_claims(Path("tests/judge"))
