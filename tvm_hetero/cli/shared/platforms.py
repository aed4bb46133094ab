"""The platform that a verb is told of: of a file, of the zoo, or this machine's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.console import Steps
    from tvm_hetero.platform.division import Division
    from tvm_hetero.platform.model import Platform


def read_or_detect_platform(path: Path | None, division: Division | None = None) -> Platform:
    """The platform of that file, or of this machine, its cores divided like that."""
    from tvm_hetero.platform.model import Platform

    if path is not None:
        return Platform.load(path)
    return division.detect() if division is not None else Platform.detect()


def resolve_platform(platform: str) -> Platform:
    """A platform from a file, or of the zoo by name."""
    from tvm_hetero import zoo
    from tvm_hetero.platform.model import Platform

    if Path(platform).suffix in {".yaml", ".yml", ".json"}:
        return Platform.load(platform)
    return zoo.platform(platform)


def prepare_platform(
    steps: Steps, path: Path | None, cost_model: str, division: Division | None = None
) -> Platform:
    """Step: the platform of a file or of this machine, its links measured where it has none.

    Links are measured only where kernels are: other cost models are for devices elsewhere.
    """
    from tvm_hetero.cost_models.registry import measures

    with steps.step("Load platform") as step:
        platform = read_or_detect_platform(path, division)
        step.note = ", ".join(platform.names)
    return measure_links(steps, platform) if measures(cost_model) else platform


def measure_links(steps: Steps, platform: Platform, again: bool = False) -> Platform:
    """Step: measure the links that the platform leaves open; none, no step."""
    from tvm_hetero.cost_models.links import measure as links

    if not links.open_pairs(platform) and not links.open_copies(platform):
        return platform
    with steps.step("Measure links") as step:
        platform = links.measure_links(platform, again=again, tell=step.counter("links"))
        known = ((k.src, k.dst, format_seconds(k.latency)) for k in platform.links)
        step.note = ", ".join(f"{src} → {dst} {latency}" for src, dst, latency in known)
    return platform
