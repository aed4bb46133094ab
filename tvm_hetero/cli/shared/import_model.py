"""A model's file, read: one step for TVM, one for the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError
from tvm_hetero.util.text_tables import count_noun

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.cli.shared.console import Steps

# Files of these names are Relay modules that an old TVM saved; all others are ONNX models.
RELAY_SUFFIXES = (".json", ".txt", ".relay")


def import_model(
    steps: Steps,
    model: Path,
    shapes: dict[str, tuple[int, ...]],
    values: dict[str, Any],
    random_weights: int | None,
    params: Path | None = None,
) -> tvm.IRModule:
    """Steps: read a model's file, and import it.

    Loading TVM is a step of its own: it takes a second.
    """
    if model.suffix in RELAY_SUFFIXES:
        given = {"--shape": shapes, "--value": values, "--random-weights": random_weights}
        return import_relay(steps, model, given, params)
    if params is not None:
        known = ", ".join(RELAY_SUFFIXES)
        raise UsageError(f"--params is for saved Relay modules ({known}), not for {model}")
    with steps.step("Read model") as step:
        from tvm_hetero.frontends.onnx.load import load_model

        # What is wrong with the file, its shapes or the options is said at once.
        loaded = load_model(model, shapes=shapes, values=values)
        step.note = model.name
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.onnx.importer import import_checked
        from tvm_hetero.frontends.onnx.source import note_source

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model") as step:
        module = import_checked(loaded, model.stem, random_weights=random_weights)
        module = note_source(module, model, shapes, values, random_weights)
        weights = "" if random_weights is None else f", random weights of seed {random_weights}"
        step.note = f"{count_noun(len(module['main'].params), 'input')}{weights}"
    return module


def import_relay(
    steps: Steps,
    model: Path,
    given: Mapping[str, object],
    params: Path | None,
) -> tvm.IRModule:
    """Step: read a Relay module that an old TVM saved, and the values of its parameters.

    `given` holds what options say that are for ONNX models, by option.
    """
    for option, value in given.items():
        if value not in (None, {}):
            raise UsageError(f"{option} is for ONNX models; {model} is a saved Relay module")
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.relay import from_json

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model") as step:
        module = from_json(model, params)
        kept = len(module["main"].params)
        step.note = f"{model.name}, {kept} input{'s' * (kept != 1)}"
    return module
