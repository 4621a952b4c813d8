"""What an implementation requires and whether it is installed, from package metadata alone."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bench.declare import Implementation
from bench.errors import PluginError

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def missing_requirements(impl: Implementation) -> tuple[str, ...]:
    """What has to be installed first, a sentence each; () where everything is there. From package metadata alone."""
    missing = []
    for required in _requirements(impl):
        have = _installed(required.name)
        advice = f"pip install {shlex.quote(str(required).split(';')[0].strip())}"
        if have is None:
            missing.append(f"{required.name} is not installed ({advice})")
        elif not required.specifier.contains(have, prereleases=True):
            missing.append(f"{required.name} {have} is installed, {required.specifier} is needed ({advice})")
    return tuple(missing)


def availability(impl: Implementation) -> str:
    """`installed`, or `missing: flash-attn>=2.5`: what a listing shows."""
    missing = []
    for required in _requirements(impl):
        have = _installed(required.name)
        if have is None or not required.specifier.contains(have, prereleases=True):
            missing.append(f"{required.name}{required.specifier}" + (f" ({have} is installed)" if have else ""))
    return f"missing: {', '.join(missing)}" if missing else "installed"


def _requirements(impl: Implementation) -> list[Requirement]:
    from packaging.requirements import Requirement

    parsed = (Requirement(text) for text in impl.requires)
    return [required for required in parsed if required.marker is None or required.marker.evaluate()]


def check_requirements(impl: Implementation, origin: str) -> None:
    """Raises PluginError for a text in `requires` that is not a requirement."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in impl.requires:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            first_line = str(error).splitlines()[0]
            raise PluginError(f"{origin}: {impl.name}: requires {text!r} is not a requirement: {first_line}") from None


def _installed(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package) or None
    except PackageNotFoundError:
        return None
