"""A small suite, lone-file plug-ins of every temper, and a way to run them: for tests of the runner with real processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.catalogue import load_catalogue
from bench.machine import find_device
from bench.processes import Process, look_up
from bench.run import Plan, RunOptions, RunSummary, execute, make_plan
from bench.store import Store
from bench.suite import expand, load_suite, parse_filters

_RIGHT = """
    import torch
    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=spec.mask == "causal", scale=spec.scale, enable_gqa=spec.heads != spec.kv_heads
        )
    return attention
"""

BODIES = {
    "right": _RIGHT,
    "wrong": _RIGHT.replace("return torch.nn", "return 1.01 * torch.nn"),
    "raises": """
    raise ArithmeticError("seven is not enough")
""",
    "hungry": """
    import torch
    def attention(q, k, v):
        kept = []
        while True:
            kept.append(torch.ones(2**26))
    return attention
""",
    "segfaults": """
    def attention(q, k, v):
        import ctypes
        ctypes.string_at(0)
    return attention
""",
    "exits": """
    def attention(q, k, v):
        import os
        os._exit(0)
    return attention
""",
    "exits_badly": """
    def attention(q, k, v):
        import os
        os._exit(7)
    return attention
""",
    "leaves_by_exception": """
    def attention(q, k, v):
        raise SystemExit("I am leaving")
    return attention
""",
    "floods": """
    print("0123456789abcdef" * 2**16)
"""
    + _RIGHT,
    "drowns": """
    def attention(q, k, v):
        while True:
            print("0123456789abcdef" * 2**16)
    return attention
""",
    "hangs": """
    def attention(q, k, v):
        import os, subprocess, sys, time
        code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
        print("grandchild", child.stdout.readline().decode().strip(), flush=True)
        time.sleep(600)
    return attention
""",
    "leaves_a_child": """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print("grandchild", child.pid, flush=True)
"""
    + _RIGHT,
    "lies": _RIGHT,
    "needy": _RIGHT,
    "compiles": """
    import os, torch
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    folder = cache_dir()
    print("before", sum(len(files) for _, _, files in os.walk(folder)), flush=True)
    compiled = torch.compile(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q * 1.0 + 0.0, k, v, is_causal=spec.mask == "causal", scale=spec.scale, enable_gqa=spec.heads != spec.kv_heads
    ))
    def attention(q, k, v):
        out = compiled(q, k, v)
        print("after", sum(len(files) for _, _, files in os.walk(folder)), flush=True)
        return out
    return attention
""",
    "whispers": """
    import os
    print("the word is", os.environ["BENCH_TEST_TOKEN"])
    raise RuntimeError("cannot log in with " + os.environ["BENCH_TEST_TOKEN"])
""",
    "second_rank_raises_first_meets": """
    import os, torch
    def attention(q, k, v):
        if os.environ["RANK"] == "1":
            raise ArithmeticError("not on my rank")
        torch.distributed.all_reduce(torch.ones(1))
    return attention
""",
    "second_rank_is_killed": """
    import os, signal
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
"""
    + _RIGHT,
    "second_rank_raises_first_hangs": """
    import os, time, torch
    print("here is rank", os.environ["RANK"], flush=True)
    torch.distributed.barrier()  # or the second might fail before the first has said so
    def attention(q, k, v):
        if os.environ["RANK"] == "1":
            raise ArithmeticError("not on my rank")
        time.sleep(600)  # as one that waits for it over NCCL, which does not notice
    return attention
""",
    "second_rank_leaves_first_hangs": """
    import os, time
    def attention(q, k, v):
        if os.environ["RANK"] == "1":
            os._exit(0)
        time.sleep(600)
    return attention
""",
    "second_rank_hangs": """
    import os, time, torch
    def attention(q, k, v):
        if os.environ["RANK"] == "1":
            time.sleep(600)
        torch.distributed.all_reduce(torch.ones(1))
    return attention
""",
}
_DECLARED = {"needy": ', requires=["no-such-package>=1"]', "lies": ', proof={"ops": ["the_kernel_that_is_promised"]}'}

QUICK = "{trials: 1, timeout_s: 60, min_samples: 3, max_samples: 5, min_sampling_s: 0, max_sampling_s: 0.2, max_warmup_s: 0.1}"


def write_plugin(folder: Path, name: str) -> str:
    """A lone file with the implementation `name`; returns its absolute path."""
    path = folder / f"{name}.py"
    declared = _DECLARED.get(name, "")
    path.write_text(
        "from bench.declare import implementation\n\n\n"
        f'@implementation(workload="attention", devices=["cpu"], dtypes=["fp32"]{declared})\n'
        f"def {name}(spec):{BODIES[name]}"
    )
    return str(path)


def write_suite(
    folder: Path, subjects: Sequence[str], *, name: str = "lab", protocol: str = QUICK, sweep: str = "seq_len: [16]"
) -> Path:
    path = folder / "lab.yaml"
    path.write_text(
        f"schema: 1\nname: {json.dumps(name)}\nquestion: Does it hold?\nworkload: attention\n"
        f"subjects: {{attention: [{', '.join(subjects)}]}}\n"
        f"sweep: {{model: [tiny], batch: [1], dtype: [fp32], pass: [forward], {sweep}}}\n"
        f"protocol: {protocol}\n"
    )
    return path


class Laboratory:
    """One suite in a folder of its own, with a database beside it."""

    def __init__(self, folder: Path, subjects: Sequence[str], *, plugins: Sequence[str] = (), seed: int = 1, **suite: Any) -> None:
        self.folder = folder
        self.database = folder / "bench.db"
        self.suite_file = write_suite(folder, subjects, **suite)
        self.options = RunOptions(
            suite_file=str(self.suite_file), device="cpu", seed=seed, plugins=tuple(write_plugin(folder, name) for name in plugins)
        )

    def plan(self, options: RunOptions | None = None) -> tuple[Plan, Any, Any]:
        options = options or self.options
        catalogue = load_catalogue([Path(path) for path in options.plugins])
        suite = load_suite(self.suite_file, catalogue, profile=options.profile, sets=options.sets)
        expansion = expand(suite, catalogue, device="cpu", filters=parse_filters(options.filters))
        return make_plan(suite, expansion, options, catalogue=catalogue), suite, catalogue

    def run(self, options: RunOptions | None = None, **more: Any) -> RunSummary:
        options = options or self.options
        plan, suite, catalogue = self.plan(options)
        with Store.open(self.database) as store:
            return execute(plan, suite, store, find_device("cpu"), catalogue, options, **more)


def marked(marker: str) -> list[Process]:
    """Living processes whose environment holds `marker`, such as a folder that only one test knows."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        process = look_up(int(name))
        if marker.encode() in environment and process is not None and not process.zombie:
            found.append(process)
    return found


def command_line(process: Process) -> bytes:
    """With NULs between the words; empty where the process is gone."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main(arguments: list[str]) -> int:
    """`python -m tests.run.laboratory FOLDER SUBJECTS PLUGINS PROTOCOL [RUN]`: the parent of a run, as a process that can be killed."""
    from bench.run import resume

    folder, subjects, plugins, protocol, *run_ids = arguments
    if run_ids:
        with Store.open(Path(folder) / "bench.db") as store:
            summary = resume(run_ids[0], store, progress=lambda progress: print(progress.text, flush=True))
    else:
        laboratory = Laboratory(Path(folder), subjects.split(), plugins=plugins.split(), protocol=protocol)
        summary = laboratory.run(progress=lambda progress: print(progress.text, flush=True))
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
