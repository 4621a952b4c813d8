"""Mistakes in a declaration, told where they are made."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bench.declare import implementation


def builder(spec: Any) -> Any:
    return spec


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"requires": "flash-attn>=2.5"}, r"requires takes a list: \['flash-attn>=2.5'\]"),
        ({"devices": "cuda"}, r"devices takes a list: \['cuda'\]"),
        ({"dtypes": "bf16"}, r"dtypes takes a list: \['bf16'\]"),
        ({"passes": "forward"}, r"passes takes a list: \['forward'\]"),
        ({"refuses": "No available kernel"}, r"refuses takes a list: \['No available kernel'\]"),
        ({"proof": {"ops": "aten::mm"}}, r"proof\['ops'\] takes a list: \['aten::mm'\]"),
        ({"proof": {"cuda": {"not": "flash"}}}, r"proof\['not'\] takes a list: \['flash'\]"),
        ({"proof": ["aten::mm"]}, "proof takes a mapping"),
        ({"proof": {"cpu": ["aten::mm"]}}, r"proof\['cpu'\] takes a mapping"),
        ({"proof": {"kernel": ["x"]}}, r"proof has no kernel \(did you mean 'kernels'\?\); it takes kernels, ops and not"),
        ({"proof": {"ops": ["("]}}, r"proof\['ops'\]: '\(' is no regular expression"),
        ({"refuses": ["["]}, r"refuses: '\[' is no regular expression"),
        ({"requires": [1]}, "requires takes a list of strings"),
        ({"devices": ["gpu"]}, r"unknown devices gpu \(did you mean 'cuda'\?\); known: cpu, cuda, cpu-interpreter"),
        (
            {"passes": ["backwards"]},
            r"unknown passes backwards \(did you mean 'backward'\?\); known: forward, backward, forward_backward",
        ),
        ({"dtypes": ["float32", "fp8"]}, r"unknown dtypes float32 \(did you mean 'fp32'\?\), fp8; known: fp32, tf32"),
        ({"dtype": ["fp32"]}, r"takes no dtype \(did you mean 'dtypes'\?\); it takes requires, devices, dtypes, .*, workload$"),
        ({"workload": 3}, "workload takes the name of a slot, not 3"),
        ({"tolerance": 0.0}, "tolerance takes a number above 0, not 0.0"),
        ({"tolerance": "5 %"}, "tolerance takes a number above 0, not '5 %'"),
        ({"tolerance": 0.1, "multiplies_in": "bf16"}, "multiplies_in takes one of dtype, fp8, int8, not 'bf16'"),
        ({"multiplies_in": "int8"}, "multiplies_in needs a tolerance"),
        ({"dtypes": ["e4m3", "half"]}, "unknown dtypes e4m3, half; known: fp32"),
    ],
)
def test_a_mistake_in_a_declaration_is_a_type_error_in_words(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        implementation(**declared)(builder)


def no_spec() -> None: ...


def two_specs(spec: Any, other: Any) -> None: ...


def keyword_spec(*, spec: Any) -> None: ...


async def later(spec: Any) -> None: ...


def one_by_one(spec: Any) -> Iterator[Any]:
    yield spec


async def later_one_by_one(spec: Any) -> AsyncIterator[Any]:
    yield spec


class Way:
    def __init__(self, spec: Any) -> None: ...

    def __call__(self, spec: Any) -> None: ...


@pytest.mark.parametrize(
    ("decorated", "told"),
    [
        (no_spec, r"gets its slot's spec and nothing else: write `def no_spec\(spec\)` \(too many positional arguments\)"),
        (two_specs, r"write `def two_specs\(spec\)` \(missing a required argument: 'other'\)"),
        (keyword_spec, r"write `def keyword_spec\(spec\)`"),
        (later, "later is async or yields: a builder returns what it has built"),
        (one_by_one, "one_by_one is async or yields"),
        (later_one_by_one, "later_one_by_one is async or yields"),
        (lambda spec: spec, "a builder needs a name of its own"),
        (Way, "not the class Way; let a function return it"),
        (Way(None), "not a Way; let a function return it"),
        (functools.partial(builder), "not a partial; let a function return it"),
    ],
)
def test_what_could_build_nothing_is_refused_where_it_is_declared(decorated: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        implementation(workload="attention")(decorated)


def test_a_decorator_without_its_parentheses_says_so() -> None:
    with pytest.raises(TypeError, match=r"^write @implementation\(\.\.\.\), with parentheses"):
        implementation(builder)  # type: ignore[arg-type]


def test_a_builder_may_have_more_arguments_with_defaults() -> None:
    def way(spec: Any, scale: float = 1.0, *rest: Any, **more: Any) -> Any:
        return spec

    assert implementation(workload="x")(way).name == "way"


def test_tuples_are_lists_too() -> None:
    made = implementation(workload="x", devices=("cuda",), passes=("forward",), refuses=("no",), proof={"ops": ("mm",)})(builder)
    assert (made.devices, made.refuses, made.proof["cuda"].ops) == (("cuda",), ("no",), ("mm",))


def test_a_decorator_may_give_a_builder_what_it_wants_besides_its_spec() -> None:
    def with_backend(builder: Callable[..., Any]) -> Callable[[Any], Any]:
        @functools.wraps(builder)
        def of_the_spec(spec: Any) -> Any:
            return builder(spec, "fast")

        return of_the_spec

    @implementation(workload="attention")
    @with_backend
    def mine(spec: Any, backend: str) -> Any:
        return backend

    assert mine.name == "mine"
    assert mine.builder(None) == "fast"


def test_a_decorator_whose_result_takes_no_spec_is_refused() -> None:
    def without(builder: Callable[[Any], Any]) -> Callable[[], Any]:
        @functools.wraps(builder)
        def of_nothing() -> Any:
            return builder(None)

        return of_nothing

    with pytest.raises(TypeError, match="its slot's spec and nothing else"):

        @implementation(workload="attention")
        @without  # type: ignore[arg-type]
        def mine(spec: Any) -> Any:
            return spec
