"""Questions as documents, ``tvm-hetero/sharing-request/1``; docs/formats.md says what stands there.

Names of files are relative to the document's folder.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from tvm_hetero.errors import UsageError
from tvm_hetero.planning.choosing.format import (
    MACHINE_KEYS,
    NETWORK_KEYS,
    check_distinct,
    read_batches,
    read_machine,
    read_network,
    read_slo,
)
from tvm_hetero.planning.choosing.replica_plan import price_of
from tvm_hetero.planning.requests import MOST, load_trace
from tvm_hetero.planning.sharing.request import SharedMachine, SharedModel, SharingRequest
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields, refuse
from tvm_hetero.util.units import parse_rate, parse_seconds

FORMAT = "tvm-hetero/sharing-request/1"
# Hours of a day, machines of all kinds, and requests a second of a model: what the program has room
# for (`problem`: everything in whole numbers of 64 bits).
MOST_HOURS, MOST_MACHINES, MOST_RATE, MOST_MODELS = 168, 100, 1e6, 100
# Less than these is none of a day: requests a second (one in 11 days), a price an hour (money is
# counted in millionths), bytes a second.
LEAST_RATE, LEAST_PRICE, LEAST_LOADING = 1e-6, 1e-6, 1e3
MOST_PRICE = 1e6
# What popularities may add up to: all, and rounding.
_ALL = 1 + 1e-9
_HOUR = 3600.0
# The shortest part of an hour whose requests tell a rate, s.
_LEAST_HOUR = 600.0


def load_sharing_request(path: str | os.PathLike[str]) -> SharingRequest:
    """Read a question from a file.

    Raises
    ------
    FormatError
        If the file, or one that it names, cannot be read or says something unknown.
    UsageError
        If a network or platform is unknown, or a load makes no sense.
    """
    return parse_sharing_request(read_document(path), str(path), Path(path).parent)


def parse_sharing_request(
    data: object, where: str = "request", folder: Path = Path()
) -> SharingRequest:
    """Read a question; `where` begins every message, files are looked for in `folder`.

    Raises
    ------
    FormatError, UsageError
        As `load_sharing_request`.
    """
    check_format(data, FORMAT, where)
    row = Fields(data, where, ["format", "models", "machines"],
                 ["name", "rates", "batches", "play"])  # fmt: skip
    machines = row.rows("machines", lambda each, at: _machine(each, at, folder), "machine")
    check_distinct(row, "machines", [each.offer.name for each in machines])
    count = sum(each.offer.available for each in machines)
    if count > MOST_MACHINES:
        raise UsageError(f"{row.at('machines')}: at most {MOST_MACHINES} in all, got {count}")
    names = {each.offer.name for each in machines}
    if len(row.items("models")) > MOST_MODELS:
        raise UsageError(
            f"{row.at('models')}: at most {MOST_MODELS}, got {len(row.items('models'))}"
        )
    total = _rates(row) if "rates" in row else None
    models = row.rows("models", lambda each, at: _model(each, at, folder, (names, total)), "model")
    check_distinct(row, "models", [each.name for each in models])
    _check_parts(row)
    for model in models:
        if len(model.rates) != len(models[0].rates):
            raise UsageError(
                f"{row.at('models')}: {models[0].name!r} has rates of {len(models[0].rates)} hours "
                f"and {model.name!r} of {len(model.rates)}; give all of them one day"
            )
    play = Fields(row.data.get("play", {}), row.at("play"), (), ["seconds", "seed"])
    seconds = play.quantity("seconds", parse_seconds, 20.0)
    if not 0 < seconds <= _HOUR:
        play.refuse("seconds", "seconds above 0, at most an hour")
    seed = play.integer("seed", 0, least=0, most=2**31 - 1)
    for model in models:
        if max(model.rates) * seconds > MOST:
            raise UsageError(
                f"{row.at('play')}: {seconds:g} s of each hour at {max(model.rates):g} requests a "
                f"second of {model.name!r}; expected at most {MOST} requests, play fewer seconds"
            )
    return SharingRequest(
        models, machines, read_batches(row), seconds, row.text("name", "request"), seed
    )


def _machine(data: object, where: str, folder: Path) -> SharedMachine:
    required, optional = MACHINE_KEYS
    row = Fields(data, where, required, [*optional, "start", "loading"])
    loading = row.quantity("loading", parse_rate, 1e9)
    if not loading >= LEAST_LOADING:
        row.refuse("loading", f"at least {LEAST_LOADING:g} bytes a second")
    start = row.quantity("start", parse_seconds, 60.0)
    if not 0 <= start <= _HOUR:
        row.refuse("start", "seconds, at most an hour: the machine is paid for and serves then")
    offer = read_machine(row, folder)
    price = price_of(offer)
    if price is not None and not LEAST_PRICE <= price <= MOST_PRICE:
        row.refuse("price", f"from {LEAST_PRICE:g} to {MOST_PRICE:g} an hour, here or of devices")
    return SharedMachine(offer, start, loading)


def _check_parts(row: Fields) -> None:
    """Of the rates of all models somebody has a part, and all of them no more than all."""
    known = [each["popularity"] for each in row.items("models") if "popularity" in each]
    if "rates" in row and not known:
        row.refuse("rates", "none beside models of which no one has a 'popularity'")
    if math.fsum(known) > _ALL:
        raise UsageError(
            f"{row.at('models')}: expected popularities, parts of all requests, of at most 1 "
            f"together, got {math.fsum(known):.6g}"
        )


def _model(
    data: object, where: str, folder: Path, known: tuple[set[str], tuple[float, ...] | None]
) -> SharedModel:
    machines, total = known
    row = Fields(data, where, ["name", "slo"], [*NETWORK_KEYS, "rates", "trace", "popularity"])
    if sum(key in row for key in ("rates", "trace", "popularity")) != 1:
        refuse(dict(row.data), where, "one of 'rates', 'trace' and 'popularity'")
    slo = read_slo(row)
    if any(limit.figure != "latency" for limit in slo):
        row.refuse("slo", "limits of the latency: networks answer once")
    return SharedModel(read_network(row, folder, machines, 0.0), slo, _hours(row, folder, total))


def _hours(row: Fields, folder: Path, total: tuple[float, ...] | None) -> tuple[float, ...]:
    """A model's rates: its own, those of a trace, or a part of those of all models together."""
    if "rates" in row:
        return _rates(row)
    if "trace" in row:
        return observed_rates(
            [each.arrival for each in load_trace(folder / row.name("trace"))], row.at("trace")
        )
    if total is None:
        row.refuse("popularity", "'rates' of all models together beside 'models'")
    part = row.number("popularity")
    if not 0 < part <= 1:
        row.refuse("popularity", "a part of all requests, above 0 and at most 1")
    if any(rate and rate * part < LEAST_RATE for rate in total):
        row.refuse("popularity", f"0 or at least {LEAST_RATE:g} requests a second in each hour")
    return tuple(rate * part for rate in total)


def _rates(row: Fields) -> tuple[float, ...]:
    rates = row.items("rates")
    sound = all(
        isinstance(r, int | float)
        and not isinstance(r, bool)
        and (r == 0 or LEAST_RATE <= r <= MOST_RATE)
        for r in rates
    )
    if not sound or not 1 <= len(rates) <= MOST_HOURS or not any(rates):
        row.refuse(
            "rates",
            f"1 to {MOST_HOURS} numbers, requests a second of each hour, each 0 or from "
            f"{LEAST_RATE:g} to {MOST_RATE:g}, and not all 0",
        )
    return tuple(float(rate) for rate in rates)


def observed_rates(arrivals: list[float], where: str = "trace") -> tuple[float, ...]:
    """Requests a second in each hour of a day that was seen; arrivals in s since it began.

    A trace ends with its last request. An hour in which it ends is that much shorter, and is no
    shorter than `_LEAST_HOUR`; hours after it, up to 24, are without requests.

    Raises
    ------
    UsageError
        If it is longer than the longest day.
    """
    last = max(arrivals)
    hours = max(24, 1 + int(last // _HOUR))
    if hours > MOST_HOURS:
        raise UsageError(f"{where}: at most {MOST_HOURS} hours, got {hours}")
    counts = [0] * hours
    for arrival in arrivals:
        counts[int(arrival // _HOUR)] += 1
    lengths = [_HOUR] * hours
    lengths[int(last // _HOUR)] = max(last % _HOUR, _LEAST_HOUR)
    return tuple(count / seconds for count, seconds in zip(counts, lengths, strict=True))
