"""The rules of the house that no linter knows: what a light command imports, what modules are called, which room may see which."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "bench").rglob("*.py"))
HEAVY = ("torch", "triton", "transformers", "numpy", "pandas", "matplotlib", "scipy", "sqlalchemy", "alembic", "jinja2")

LOOK = """
import sys
from bench.cli import main
code = main(sys.argv[2:])
found = [name for name in sys.argv[1].split(",") if name in sys.modules]
sys.exit(f"exit code {code}" if code else f"imported {found}" if found else 0)
"""


@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (["--help"], (*HEAVY, "pydantic", "yaml", "importlib.metadata")),
        (["--version"], (*HEAVY, "pydantic", "yaml")),
        (["run", "--help"], (*HEAVY, "pydantic", "yaml")),
        (["list"], HEAVY),
        (["list", "implementations"], (*HEAVY, "pydantic")),
        (["schema"], HEAVY),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_light_command_imports_nothing_heavy(arguments: list[str], banned: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, ",".join(banned), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _cpu_s(command: list[str]) -> float:
    """CPU seconds of a command, the least of five: a busy machine makes it wait, not work."""
    found = []
    for _ in range(5):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


def test_help_and_the_list_cost_little_more_than_starting_python_with_click() -> None:
    start = _cpu_s([sys.executable, "-c", "import click, click.testing"])
    assert _cpu_s([sys.executable, "-m", "bench", "--help"]) < 2.5 * start
    assert _cpu_s([sys.executable, "-m", "bench", "list", "implementations"]) < 6 * start


def test_no_room_sees_one_above_it() -> None:
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_in_its_first_line_why_it_exists(path: Path) -> None:
    doc = ast.get_docstring(ast.parse(path.read_text()))
    assert doc, "no docstring"
    assert doc.splitlines()[0].strip()


def test_no_module_is_named_after_nothing() -> None:
    empty = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    assert not [path for path in MODULES if path.stem in empty or path.parent.name in empty]


def test_every_module_that_the_design_names_is_there() -> None:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:bench/)?((?:[a-z_]+/)*[a-z_]+\.py)`", text))
    there = {f"/{path.relative_to(ROOT).as_posix()}" for path in MODULES}
    assert len(named) > 30
    assert not sorted(name for name in named if not any(path.endswith(f"/{name}") for path in there))


def test_every_room_is_in_the_designs_table() -> None:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    rows = text[text.index("## 2.") : text.index("## 3.")].splitlines()
    told = {name.rstrip("/") for row in rows if row.startswith("| ") for name in re.findall("`([^`]+)`", row.split(" | ")[0])}
    rooms = {path.relative_to(ROOT / "bench").parts[0] for path in MODULES} - {"__init__.py", "__main__.py"}
    assert len(rooms) > 20
    assert told == rooms


def test_every_command_says_what_it_takes() -> None:
    from bench.cli import COMMANDS, cli

    assert cli.list_commands(None) == list(COMMANDS)  # type: ignore[arg-type]
    for name, (_, short) in COMMANDS.items():
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.name == name
        assert command.help, name
        assert short.endswith(".")
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{name} {parameter.opts}"
