"""The catalogue finds what is there, in the order built-in, plug-in, entry point, and says what is wrong with the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.catalogue import Catalogue, load_catalogue
from bench.declare import SlotKind
from bench.errors import PluginError, SelectionError

WritePlugin = Callable[..., Path]

GOOD = '''
    """A copy of the plain way."""
    from bench.declare import implementation

    @implementation(workload="attention", requires=["torch"])
    def mine(spec):
        """My kernel, in one line."""
        return None
'''

WORKLOAD = """
    from bench.declare import Param, SlotKind, Workload, implementation

    class Toy(Workload):
        name = "toy"
        version = 3
        slots = {"toy": SlotKind.FUNCTION}
        params = (Param("size", int, minimum=1),)
        def spec(self, case): return case.params["size"]
        def cost(self, spec, pass_): ...
        def small_spec(self, spec): return spec
        def make_inputs(self, spec, device, generator): return {}
        def bind(self, spec, built, parameters): ...
        def reference(self, spec, inputs, parameters): return {}
        def slice(self, spec): return None

    WORKLOAD = Toy()
"""

TOY_WAY = """
    from bench.declare import implementation

    @implementation(workload="toy")
    def way(spec): ...
"""


@pytest.fixture
def write(tmp_path: Path) -> WritePlugin:
    def write_plugin(text: str, name: str = "plugin.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write_plugin


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a package with entry points visible, as an installed distribution would be."""
    site = tmp_path / "site"
    before = set(sys.modules)

    def install(**modules: str) -> None:
        info = site / "somebody-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
        points = "\n".join(f"{name} = somebody_{name}" for name in modules)
        (info / "entry_points.txt").write_text(f"[bench.implementations]\n{points}\n")
        for name, text in modules.items():
            (site / f"somebody_{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(str(site))

    yield install
    for name in set(sys.modules) - before:
        if name.startswith("somebody"):
            del sys.modules[name]


def test_every_file_of_a_folder_is_an_implementation() -> None:
    catalogue = load_catalogue()
    found = catalogue.implementations("attention")
    assert {"eager", "sdpa_math", "sdpa_flash", "flex", "flash_attn2"} <= set(found)
    assert all(entry.slot == "attention" and entry.name == name for name, entry in found.items())
    assert catalogue.workloads["attention"].name == "attention"
    assert set(catalogue.workloads) >= {"attention", "rms_norm"}
    assert "attention" in catalogue.workloads
    assert len(catalogue.workloads) == len(list(catalogue.workloads))


def test_every_implementation_with_a_tolerance_says_in_which_format_it_multiplies() -> None:
    catalogue = load_catalogue()
    declared = [
        found for slot in catalogue.slots() for found in catalogue.implementations(slot).values() if found.tolerance is not None
    ]
    assert declared
    assert [found.name for found in declared if found.multiplies_in is None] == []


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    catalogue = load_catalogue()
    with pytest.raises(SelectionError, match=r"'sdpa_flahs'.*did you mean 'sdpa_flash'"):
        catalogue.implementation("attention", "sdpa_flahs")
    with pytest.raises(SelectionError, match="did you mean 'attention'"):
        catalogue.implementations("atention")
    with pytest.raises(SelectionError, match="did you mean 'rms_norm'"):
        catalogue.workload("rmsnorm")
    with pytest.raises(KeyError):
        catalogue.workloads["nothing"]


def test_a_plugin_joins_its_slot_without_any_other_edit(write: WritePlugin) -> None:
    path = write(GOOD)
    catalogue = load_catalogue([path])
    mine = catalogue.implementation("attention", "mine")
    assert mine.description == "My kernel, in one line."
    assert mine.source == str(path)
    assert list(catalogue.implementations("attention"))[-1] == "mine"
    assert "mine" not in load_catalogue().implementations("attention")


def test_two_plugins_may_have_the_same_file_name(write: WritePlugin) -> None:
    one = write(GOOD, "a/kernel.py")
    two = write(GOOD.replace("def mine", "def yours"), "b/kernel.py")
    found = load_catalogue([one, two, one]).implementations("attention")
    assert {"mine", "yours"} <= set(found)
    assert found["mine"].builder.__module__ != found["yours"].builder.__module__


def test_a_plugin_leaves_no_bytecode_behind_and_is_read_anew(write: WritePlugin) -> None:
    path = write(GOOD)
    load_catalogue([path])
    write(GOOD.replace("def mine", "def me2e"))
    assert "me2e" in load_catalogue([path]).implementations("attention")
    assert [entry.name for entry in path.parent.iterdir()] == ["plugin.py"]


def test_a_plugin_that_imports_torch_is_told_what_it_costs_and_what_it_prints_is_no_output_of_ours(write: WritePlugin) -> None:
    write("print('a banner')\n", "site/torch.py")
    heavy, light = write("import torch\n" + textwrap.dedent(GOOD), "heavy.py"), write(GOOD, "light.py")
    program = "import sys; from pathlib import Path; from bench.catalogue import load_catalogue as load;"
    program += "print([load([Path(path)]).notices for path in sys.argv[1:]])"
    command = [sys.executable, "-c", program, str(light), str(heavy)]
    environment = {**os.environ, "PYTHONPATH": str(heavy.parent / "site")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith(f"[[], ['{heavy}: importing it imports torch too, so every command that reads it takes ")
    assert "import torch, and packages that bring it along, inside the builder" in done.stdout
    assert done.stderr == "a banner\n"


def test_what_c_code_and_programs_print_while_a_plugin_is_imported_is_no_output_of_ours_either(write: WritePlugin) -> None:
    noisy = "import ctypes, os\nctypes.CDLL(None).puts(b'from C')\nos.system('echo from a program')\n"
    path = write(noisy + textwrap.dedent(GOOD))
    program = "import sys; from pathlib import Path; from bench.catalogue import load_catalogue as load;"
    program += "print('before'); load([Path(sys.argv[1])]); print('after')"
    for closed in ("", " >&-"):
        command = ["/bin/sh", "-c", f'"$0" -c "$1" "$2"{closed}', sys.executable, program, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout == ("" if closed else "before\nafter\n")
        assert closed or sorted(done.stderr.splitlines()) == ["from C", "from a program"]
        assert "Traceback" not in done.stderr


def test_plugin_paths_may_hold_dots_spaces_and_quotes(write: WritePlugin) -> None:
    path = write(GOOD, 'it\'s "my" <b>v1.2</b> kernel😀.py'.replace("/", "_"))
    assert "mine" in load_catalogue([path]).implementations("attention")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "declares no implementation"),
        ("\n\nraise RuntimeError('no\\nluck')\n", r"plugin\.py:3: RuntimeError: no luck$"),
        ("import nothing_of_that_name\n", r"plugin\.py:1: ModuleNotFoundError: No module named"),
        ("\ndef broken(:\n", r"plugin\.py:2: SyntaxError: "),
        ("import sys\nsys.exit(3)\n", r"plugin\.py:2: SystemExit: 3"),
        ("x = '\x00'\n", "SyntaxError"),
        (GOOD.replace('workload="attention", ', ""), r'mine: say which slot it fills: @implementation\(workload="\.\.\."'),
        (GOOD.replace('"attention"', '"atention"'), "unknown workload 'atention' .did you mean 'attention'"),
        (GOOD.replace("def mine", "def eager"), r"an implementation named 'eager' already, in .*eager\.py"),
        (GOOD.replace('"torch"', '"not a requirement!"'), "mine: requires 'not a requirement!' is not a requirement"),
        (GOOD.replace("requires", "needs"), r"plugin\.py:5: TypeError"),
        ("WORKLOAD = 3\n", "WORKLOAD: it must be an instance of bench.declare.Workload, not int"),
        (WORKLOAD.replace('name = "toy"', 'name = "attention"'), "a workload named 'attention' already"),
        (WORKLOAD.replace("version = 3", ""), "it lacks version"),
        (WORKLOAD.replace('Param("size"', 'Param("dtype"'), "reserved or there twice: dtype"),
    ],
)
def test_a_bad_plugin_is_one_clear_sentence(write: WritePlugin, text: str, message: str) -> None:
    path = write(text)
    before = set(sys.modules)
    with pytest.raises(PluginError, match=message) as caught:
        load_catalogue([path])
    assert str(path) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)
    if "raise" in text:
        assert not {name for name in set(sys.modules) - before if name.startswith("bench_plugin")}


def test_a_plugin_path_that_is_no_python_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="there is no such file"):
        load_catalogue([tmp_path / "absent.py"])
    with pytest.raises(PluginError, match="is a folder"):
        load_catalogue([tmp_path])
    (tmp_path / "kernel.txt").write_text("x = 1")
    with pytest.raises(PluginError, match=r"ends in \.py"):
        load_catalogue([tmp_path / "kernel.txt"])


def test_two_plugins_may_not_claim_one_name(write: WritePlugin) -> None:
    with pytest.raises(PluginError, match=r"b\.py: attention has an implementation named 'mine' already, in .*a\.py"):
        load_catalogue([write(GOOD, "a.py"), write(GOOD, "b.py")])


def test_a_plugin_may_declare_a_workload_that_another_one_fills(write: WritePlugin) -> None:
    way, toy = write(TOY_WAY, "way.py"), write(WORKLOAD, "toy.py")
    catalogue = load_catalogue([way, toy])
    assert catalogue.workloads["toy"].slots == {"toy": SlotKind.FUNCTION}
    assert list(catalogue.implementations("toy")) == ["way"]
    assert "toy" in catalogue.slots()
    assert "toy" in list(catalogue.workloads)


def test_an_entry_point_adds_implementations_and_workloads(installed: Callable[..., None]) -> None:
    installed(kernels=GOOD, toys=WORKLOAD + TOY_WAY)
    catalogue = load_catalogue()
    assert catalogue.problems == ()
    assert catalogue.implementation("attention", "mine").builder.__module__ == "somebody_kernels"
    assert list(catalogue.implementations("toy")) == ["way"]
    assert catalogue.workloads["toy"].version == 3


def test_a_broken_entry_point_breaks_nothing_but_itself(installed: Callable[..., None]) -> None:
    installed(
        broken="import absent_package",
        clash=GOOD.replace("def mine", "def eager"),
        empty="x = 1",
        good=GOOD,
        leaves="raise SystemExit(1)",
    )
    catalogue = load_catalogue()
    assert {"eager", "mine"} <= set(catalogue.implementations("attention"))
    assert "bench.workloads" in catalogue.implementation("attention", "eager").builder.__module__
    reasons = {problem.file: problem.message for problem in catalogue.problems}
    assert "No module named 'absent_package'" in reasons["entry point broken = somebody_broken"]
    assert "declares no implementation" in reasons["entry point empty = somebody_empty"]
    assert "SystemExit" in reasons["entry point leaves = somebody_leaves"]
    assert "'eager' already" in reasons["entry point clash"]
    assert len(reasons) == 4


def test_a_built_in_is_found_without_importing_other_packages(installed: Callable[..., None]) -> None:
    installed(kernels=GOOD)
    catalogue = load_catalogue()
    catalogue.implementation("attention", "eager")
    assert catalogue.workloads["attention"].version >= 1
    assert "somebody_kernels" not in sys.modules


def test_listing_imports_neither_torch_nor_numpy_nor_pydantic() -> None:
    program = (
        "import sys; from bench.catalogue import *; c = load_catalogue();"
        "[availability(i) for s in c.slots() for i in c.implementations(s).values()]; list(c.workloads); c.problems; c.models;"
        "print(*sorted({'torch', 'numpy', 'pandas', 'sqlalchemy', 'pydantic', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_catalogue_of_plugins_does_not_change_another_catalogue(write: WritePlugin) -> None:
    plain = Catalogue()
    Catalogue([write(GOOD)])
    assert "mine" not in plain.implementations("attention")
