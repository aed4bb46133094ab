"""Each verb of the command line with something to do, for `tests.fuzz.signals`.

Commands run in an empty folder; ``{in}`` stands for the folder with what `prepare` made, and what
they write they write into theirs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from tvm_hetero.artifact.code_version import code_version

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Verb:
    """A command, and how it may end.

    Attributes
    ----------
    seconds : how long it is at work on an idle machine; signals come within 1.5 times of that.
    terminated : its statuses after SIGTERM besides 143.
    """

    name: str
    arguments: str
    seconds: float
    terminated: tuple[int, ...] = ()


_PARTITION = "partition {in}/tiny.onnx -o net.hetero --platform {in}/two.yaml --time-limit 2"
_QUICK = "--cost-model analytical --solver heft --no-measure"

VERBS = (
    Verb("devices", "devices", 4),
    Verb("partition", _PARTITION, 10),
    Verb("partition a decoder",
         f"partition {{in}}/gpt2 -o net.hetero --platform {{in}}/two.yaml --length 40 {_QUICK}", 5),
    Verb("run", "run {in}/net.hetero --random", 2),
    Verb("run a stream", "run {in}/net.hetero --random --stream --seconds 30", 5),
    Verb("serve", "serve {in}/net.hetero --port 0", 5, terminated=(0,)),
    Verb("load-test", "load-test http://127.0.0.1:{port} --model net --rate 50 --seconds 20 "
         "--out report.html", 4),
    Verb("adapt", "adapt {in}/table.json -o report.html", 4),
    Verb("cluster", "cluster {in}/nodes.yaml -o platform.yaml", 10),
    Verb("generate", "generate {in}/gpt2.hetero --prompt-ids 1,2 --max-new-tokens 38 --stream", 2),
    Verb("bench", "bench {in}/net.hetero", 5),
    Verb("problem", "problem {in}/tiny.onnx -o problem.json --platform {in}/two.yaml", 8),
    Verb("record", "record {in}/tiny.onnx -o table.json --seconds 0.1 --noise 50", 10),
    Verb("refine", "refine {in}/quick.hetero -o net.hetero", 8),
    Verb("plan", "plan llama3-70b -o schedule.json --problem problem.json --html plan.html", 8),
    Verb("place-layers", "place-layers {in}/layers.json -o layout.json --time-limit 5", 2),
    Verb("simulate", "simulate llama3-70b --time-limit 2", 4),
    Verb("schedule", "schedule {in}/randwire.json -o schedule.json --time-limit 8", 8),
    Verb("schedule by MILP",
         "schedule {in}/randwire.json -o schedule.json --time-limit 8 --solver milp", 8),
    Verb("check", "check {in}/randwire.json {in}/schedule.json", 1),
    Verb("onnx-check", "onnx-check {in}/tiny.onnx", 2),
    Verb("relay-check", "relay-check {relay}/mlp.relay.json", 1),
    Verb("show", "show {in}/schedule.json --problem {in}/randwire.json --html page.html", 1),
    Verb("solvers", "solvers", 1),
    Verb("tune", "tune {in}/tiny.onnx --platform {in}/two.yaml --trials 30", 15),
    Verb("zoo", "zoo randwire-c154 -o problem.json", 1),
    Verb("power", "power {in}/levels.json --watts 4 -o schedule.json", 2),
    Verb("choose", "choose {in}/ask.json --html choice.html", 4),
    Verb("share", "share {in}/sharing/day.json --html day.html", 4),
    Verb("doctor", "doctor", 8),
    Verb("demo", "demo --folder demo --model {in}/tiny.onnx", 15),
)  # fmt: skip


def prepare(folder: Path) -> None:
    """Make what the verbs read; what this code has made already is kept."""
    from benchmarks.execution.cases import TINY, make_model
    from tests.cli.verbs.test_choose import write_question
    from tests.cli.verbs.test_share import write_day
    from tests.models import two_cpus
    from tests.online.comparison.test_recorded import recording
    from tests.planning.helix.test_format import DOCUMENT
    from tests.planning.power.test_plan import two_levels
    from tests.small_decoders import tiny

    made = folder / "made"
    if made.exists() and made.read_text() == code_version():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(make_model(TINY), folder / "tiny.onnx")
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    platform = two_cpus()
    devices = tuple(replace(device, **figures) for device in platform.devices)
    replace(platform, devices=devices).save(folder / "two.yaml")
    recording().save(folder / "table.json")
    two_levels(0.5).save(folder / "levels.json")
    write_question(folder)
    (folder / "sharing").mkdir(exist_ok=True)
    write_day(folder / "sharing")
    (folder / "layers.json").write_text(json.dumps(DOCUMENT))
    (folder / "nodes.yaml").write_text(
        "format: tvm-hetero/cluster/1\naddress: local\nnodes: [{name: a, cores: [0]}]\n"
    )
    tiny("gpt2", folder / "gpt2")
    model = f"partition {folder}/tiny.onnx --platform {folder}/two.yaml"
    for command in (
        f"{model} {_QUICK} -o {folder}/net.hetero",
        f"{model} --quick -o {folder}/quick.hetero",
        f"partition {folder}/gpt2 -o {folder}/gpt2.hetero --platform {folder}/two.yaml "
        f"--length 40 {_QUICK}",
        f"zoo randwire-c154 -o {folder}/randwire.json",
        f"schedule {folder}/randwire.json --solver heft -o {folder}/schedule.json",
    ):
        subprocess.run([sys.executable, "-m", "tvm_hetero", *command.split()], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    made.write_text(code_version())


def is_whole(path: Path) -> bool:
    """Whether a result that a verb wrote is all there."""
    if path.suffix == ".json":
        return isinstance(json.loads(path.read_text()), dict)
    if path.suffix == ".html":
        return path.read_text().rstrip().endswith("</html>")
    if path.suffix == ".hetero":
        from tvm_hetero.decoders.folder import is_decoder
        from tvm_hetero.decoders.load import load

        load(path).close()
        return is_decoder(path) or (path / "manifest.json").is_file()
    return path.suffix == ".yaml" or path.is_dir()
