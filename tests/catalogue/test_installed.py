"""What is missing is said from package metadata, in words that a user can act on."""

from __future__ import annotations

import dataclasses

import pytest

from bench.catalogue import availability, load_catalogue, missing_requirements
from bench.declare import Implementation


@pytest.fixture
def eager() -> Implementation:
    return load_catalogue().implementation("attention", "eager")


def requiring(impl: Implementation, *requires: str) -> Implementation:
    return dataclasses.replace(impl, requires=requires)


def test_nothing_required_is_nothing_missing(eager: Implementation) -> None:
    plain = requiring(eager)
    assert missing_requirements(plain) == ()
    assert availability(plain) == "installed"


def test_an_absent_package_says_how_to_install_it(eager: Implementation) -> None:
    impl = requiring(eager, "no-such-package-at-all>=2.5", "pytest>=7")
    assert missing_requirements(impl) == ("no-such-package-at-all is not installed (pip install 'no-such-package-at-all>=2.5')",)
    assert availability(impl) == "missing: no-such-package-at-all>=2.5"


def test_a_version_that_is_too_old_is_told_apart_from_an_absent_one(eager: Implementation) -> None:
    impl = requiring(eager, "pytest>=9999")
    assert missing_requirements(impl) == (
        f"pytest {pytest.__version__} is installed, >=9999 is needed (pip install 'pytest>=9999')",
    )
    assert availability(impl) == f"missing: pytest>=9999 ({pytest.__version__} is installed)"


def test_a_requirement_for_another_platform_does_not_count(eager: Implementation) -> None:
    impl = requiring(eager, "no-such-package-at-all; sys_platform == 'plan9'")
    assert missing_requirements(impl) == ()
    assert availability(impl) == "installed"


def test_a_local_or_development_version_satisfies_a_requirement(eager: Implementation) -> None:
    assert missing_requirements(requiring(eager, "torch>=2.8")) == ()


def test_every_built_in_states_requirements_that_can_be_read() -> None:
    catalogue = load_catalogue()
    for slot in catalogue.slots():
        for impl in catalogue.implementations(slot).values():
            assert availability(impl).startswith(("installed", "missing: "))
            assert impl.description
