"""Questions as documents, ``tvm-hetero/choice-request/1``; docs/formats.md says what stands there.

Names of files are relative to the document's folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.planning.choosing.arrivals import Bursts, draw_requests
from tvm_hetero.planning.choosing.request import (
    FIGURES,
    GOALS,
    PERCENTILES,
    PRECISIONS,
    ChoiceRequest,
    MachineOffer,
    ModelVariant,
    RequestClass,
    SloLimit,
    SpendingLimit,
)
from tvm_hetero.planning.requests import Lengths, ServiceRequest, load_trace, parse_lengths
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields, check_integer, refuse
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_quantity, parse_seconds

FORMAT = "tvm-hetero/choice-request/1"
MOST_BATCH = 1024
MOST_MACHINES = 100_000
# Prices, watts and accuracies: the program counts them in whole parts of 64 bits.
MOST_FIGURE = 1e6
# Fields of a machine, required and optional ones, and of a network.
MACHINE_KEYS = (
    ("name", "platform", "available"),
    ("devices", "price", "idle_watts", "busy_watts"),
)
NETWORK_KEYS = ("model", "parameters", "problems", "precision")
_FILES = (".yaml", ".yml", ".json")


def load_choice_request(path: str | os.PathLike[str]) -> ChoiceRequest:
    """Read a question from a file.

    Raises
    ------
    FormatError
        If the file, or one that it names, cannot be read or says something unknown.
    UsageError
        If a network or platform is unknown, or a load makes no sense.
    """
    return parse_choice_request(read_document(path), str(path), Path(path).parent)


def parse_choice_request(
    data: object, where: str = "request", folder: Path = Path()
) -> ChoiceRequest:
    """Read a question; `where` begins every message, files are looked for in `folder`.

    Raises
    ------
    FormatError, UsageError
        As `load_choice_request`.
    """
    check_format(data, FORMAT, where)
    row = Fields(
        data, where, ["format", "variants", "machines", "load"],
        ["name", "goal", "budget", "batches"],
    )  # fmt: skip
    load = row.fields("load", ["classes"], ["seconds", "seed"])
    seconds = load.quantity("seconds", parse_seconds, 60.0)
    if not seconds > 0:
        load.refuse("seconds", "seconds above 0")
    seed = load.integer("seed", 0, least=0, most=2**31 - 1)
    machines = row.rows(
        "machines", lambda each, at: read_machine(Fields(each, at, *MACHINE_KEYS), folder),
        "machine",
    )  # fmt: skip
    names = {machine.name for machine in machines}
    variants = row.rows("variants", lambda each, at: _variant(each, at, folder, names), "variant")
    classes = load.rows(
        "classes", lambda each, at: _class(each, at, folder, (seconds, seed)), "class"
    )
    for key, rows in (("variants", variants), ("machines", machines)):
        check_distinct(row, key, [each.name for each in rows])
    check_distinct(load, "classes", [each.name for each in classes])
    return ChoiceRequest(
        variants, machines, classes, row.choice("goal", GOALS, "price"),
        _budget(row), seconds, read_batches(row), row.text("name", "request"), seed,
    )  # fmt: skip


def read_batches(row: Fields) -> tuple[int, ...]:
    """The largest batches of plans, ``batches``, in order."""
    batches = row.integers("batches", (1, 4, 16), least=1, distinct=True)
    if not batches or max(batches) > MOST_BATCH:
        row.refuse("batches", f"a list of sizes from 1 to {MOST_BATCH}")
    return tuple(sorted(batches))


def check_distinct(row: Fields, key: str, names: list[str]) -> None:
    """Refuse rows of which there is none, or of which two have one name."""
    if not names or len(set(names)) < len(names):
        row.refuse(key, "a list of one or more, each with a name of its own")


def _budget(row: Fields) -> SpendingLimit:
    if "budget" not in row:
        return SpendingLimit()
    budget = row.fields("budget", (), ["price", "watts"])
    return SpendingLimit(_optional(budget, "price"), _optional(budget, "watts"))


def _optional(row: Fields, key: str) -> float | None:
    if key not in row:
        return None
    value = row.quantity(key, parse_quantity)
    if value > MOST_FIGURE:
        row.refuse(key, f"at most {MOST_FIGURE:g}")
    return value


def _variant(data: object, where: str, folder: Path, machines: set[str]) -> ModelVariant:
    row = Fields(data, where, ["name", "accuracy"], NETWORK_KEYS)
    return read_network(row, folder, machines, _accuracy(row))


def read_network(row: Fields, folder: Path, machines: set[str], accuracy: float) -> ModelVariant:
    """A network of the zoo, or problems by the names of machines (`NETWORK_KEYS`)."""
    if ("model" in row) == ("problems" in row):
        refuse(dict(row.data), row.where, "either 'model', a name of the zoo, or 'problems'")
    model = row.name("model") if "model" in row else ""
    problems = {}
    for machine, file in row.mapping("problems", default={}).items():
        if machine not in machines or not isinstance(file, str):
            row.refuse("problems", f"files by machine, of {', '.join(sorted(machines))}")
        problems[machine] = Problem.load(folder / file)
    if model:
        zoo.describe(model)
    parameters = dict(row.mapping("parameters", default={}))
    if not all(isinstance(key, str) for key in parameters):
        row.refuse("parameters", "a mapping whose keys are names of parameters")
    return ModelVariant(
        row.name("name"), accuracy, model,
        row.choice("precision", PRECISIONS, "float32"), parameters, problems,
    )  # fmt: skip


def _accuracy(row: Fields) -> float:
    accuracy = row.number("accuracy")
    if accuracy > MOST_FIGURE:
        row.refuse("accuracy", f"at most {MOST_FIGURE:g}")
    return accuracy


def read_machine(row: Fields, folder: Path) -> MachineOffer:
    """A machine that can be had, of the fields in `MACHINE_KEYS`."""
    given = row.name("platform")
    platform = Platform.load(folder / given) if given.endswith(_FILES) else zoo.platform(given)
    if "devices" in row:
        platform = keep_devices(platform, row.names("devices"), row.at("devices"))
    idle, busy = _optional(row, "idle_watts"), _optional(row, "busy_watts")
    if (idle is None) != (busy is None) or (idle or 0.0) > (busy or 0.0):
        refuse(dict(row.data), row.where, "both watts or none, 'idle_watts' not above 'busy_watts'")
    for name in several_levels(platform) if busy is not None else ():
        raise UsageError(
            f"{row.at('busy_watts')}: {quote(name)} has frequency levels, each with watts of its "
            "own; leave these out, or name one level in 'devices'"
        )
    return MachineOffer(
        row.name("name"), platform, row.integer("available", least=1, most=MOST_MACHINES),
        _optional(row, "price"), idle, busy,
    )  # fmt: skip


def several_levels(platform: Platform) -> dict[str, tuple[str, ...]]:
    """The names of a device's frequency levels, of each device that has several of them here."""
    levels: dict[str, tuple[str, ...]] = {}
    for device in platform.devices:
        if device.level_of is not None:
            levels[device.level_of] = (*levels.get(device.level_of, ()), device.name)
    return {name: own for name, own in levels.items() if len(own) > 1}


def keep_devices(platform: Platform, names: tuple[str, ...], where: str) -> Platform:
    """The platform with some of its devices, and the links between them.

    Raises
    ------
    UsageError
        If there is no such device, or none is named.
    """
    if not names:
        raise UsageError(f"{where}: expected devices of {platform.name}, got none")
    for name in names:
        if name not in platform.names:
            known = ", ".join(platform.names)
            raise UsageError(f"{where}: {platform.name} has no device {quote(name)}, only {known}")
    return Platform(
        tuple(each for each in platform.devices if each.name in names),
        tuple(each for each in platform.links if {each.src, each.dst} <= set(names)),
        platform.fabrics,
        platform.name,
    )


def _class(data: object, where: str, folder: Path, drawn: tuple[float, int]) -> RequestClass:
    row = Fields(data, where, ["name", "slo"],
                 ["rate", "bursts", "prompt", "output", "trace", "accuracy"])  # fmt: skip
    if ("rate" in row) == ("trace" in row):
        refuse(dict(row.data), where, "either 'rate', requests a second, or 'trace', a file")
    if "trace" in row:
        for key in ("bursts", "prompt", "output"):
            if key in row:
                row.refuse(key, "nothing beside a 'trace', which says it itself")
        requests, rate = load_trace(folder / row.name("trace")), None
    else:
        requests, rate = _drawn(row, *drawn)
    accuracy = _accuracy(row) if "accuracy" in row else 0.0
    own = _trace_seconds(requests) if "trace" in row else None
    return RequestClass(row.name("name"), requests, read_slo(row), accuracy, own, rate)


def _trace_seconds(requests: tuple[ServiceRequest, ...]) -> float | None:
    """How long a trace's requests arrive: so many, each with the mean time to the next."""
    span = requests[-1].arrival - requests[0].arrival
    return span * len(requests) / (len(requests) - 1) if span else None


def _drawn(row: Fields, seconds: float, seed: int) -> tuple[tuple[ServiceRequest, ...], float]:
    """Requests of a class and their rate: one with another name has a random stream of its own."""
    bursts = None
    if "bursts" in row:
        given = row.fields("bursts", ["factor", "every", "length"])
        every, length = (given.quantity(key, parse_seconds) for key in ("every", "length"))
        if not 0 < length <= every:
            given.refuse("length", "seconds above 0, not above 'every'")
        bursts = Bursts(given.number("factor"), every, length)
    rate = row.number("rate")
    if not rate > 0:
        row.refuse("rate", "requests a second, above 0")
    name = row.name("name").encode()
    lengths = (_lengths(row, "prompt"), _lengths(row, "output"))
    try:
        drawn = draw_requests(rate, seconds, bursts, *lengths, seed=(seed, len(name), *name))
    except UsageError as error:
        raise UsageError(f"{row.at('rate')}: {error}") from None
    return drawn, rate * (bursts.more if bursts else 1.0)


def _lengths(row: Fields, key: str) -> Lengths:
    value = row.data.get(key, 1)
    if isinstance(value, str):
        return parse_lengths(value, row.at(key))
    return Lengths("fixed", check_integer(value, row.where, key, least=1))


def read_slo(row: Fields) -> tuple[SloLimit, ...]:
    """The limits of ``slo``, one or more."""
    slo = row.fields("slo", (), FIGURES)
    limits: list[SloLimit] = []
    for figure in FIGURES:
        if figure in slo:
            given = slo.fields(figure, (), [f"p{p}" for p in PERCENTILES])
            limits += [
                SloLimit(figure, p, given.quantity(f"p{p}", parse_seconds))
                for p in PERCENTILES
                if f"p{p}" in given
            ]
    if not limits:
        row.refuse("slo", "at least one limit, such as {latency: {p99: 100ms}}")
    return tuple(limits)
