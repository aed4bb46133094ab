"""Places to record: kinds of cores and widths (``native:1,2``), as devices of this machine.

A kind is what LLVM compiles for: ``native``, or a CPU's name such as ``x86-64-v2``, which makes a
slower kind of the same cores. A place of width w has the first w cores that this process may use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.platform.devices import Device, Fabric
from tvm_hetero.platform.discovery import detect_devices, missing_features
from tvm_hetero.platform.host import available_cores, read_processor
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.quote import quote

NATIVE = "native"


@dataclass(frozen=True)
class PlaceKind:
    """A kind of cores, and the widths of places of it."""

    name: str
    widths: tuple[int, ...]

    @property
    def mcpu(self) -> str | None:
        """What LLVM compiles for; None: what there is."""
        return None if self.name == NATIVE else self.name


def parse_places(texts: Sequence[str]) -> tuple[PlaceKind, ...]:
    """Read ``native:1,2`` and the like; without widths it is 1.

    Raises
    ------
    UsageError
        If a text is not of that form, or a kind or width is given twice.
    """
    found: dict[str, PlaceKind] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        pieces = [piece.strip() for piece in numbers.split(",")] if colon else ["1"]
        good = all(piece.isdecimal() and len(piece) < 5 and int(piece) > 0 for piece in pieces)
        if not name or not good or len(set(map(int, pieces))) < len(pieces):
            raise UsageError(
                f"places {quote(text)}: expected KIND:WIDTHS such as native:1,2 or x86-64-v2:1, "
                "each width once"
            )
        if name in found:
            raise UsageError(f"places: kind {quote(name)} is given twice; give its widths together")
        found[name] = PlaceKind(name, tuple(int(piece) for piece in pieces))
    if not found:
        raise UsageError("expected at least one kind of places, such as native:1")
    return tuple(found.values())


def place_devices(kinds: Sequence[PlaceKind]) -> Mapping[tuple[str, int], Device]:
    """The device of each kind and width; those that share cores exclude each other.

    Raises
    ------
    UsageError
        If a width is more than there are cores.
    PlatformError
        If this CPU cannot run code for a kind.
    """
    cores = sorted(available_cores())
    processor = read_processor()
    devices: dict[tuple[str, int], Device] = {}
    for kind in kinds:
        for width in kind.widths:
            if width > len(cores):
                raise UsageError(
                    f"places of {width} cores: this process may use {len(cores)}; give smaller "
                    "widths"
                )
            made = detect_devices(1, [kind.mcpu], cores=cores[:width])[0]
            lacking = missing_features(made.target, processor)
            if lacking:
                raise PlatformError(
                    f"this CPU cannot run code for {quote(kind.name)}: it lacks "
                    f"{', '.join(lacking)}; choose an older kind"
                )
            name = f"{kind.name}-{width}"
            devices[kind.name, width] = replace(made, name=name, memory=None, overlap=False)
    return devices


def platform_of(devices: Mapping[tuple[str, int], Device]) -> Platform:
    """The devices as a platform; what a copy costs is no matter where nothing is copied."""
    nodes = {device.node for device in devices.values()}
    fabrics = (*(Fabric(node) for node in sorted(nodes)), Fabric(None))
    return Platform(tuple(devices.values()), fabrics=fabrics, name="recorded places")
