"""A model's file or an encoder's folder, read: one step for TVM, one for the model."""

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
    """Steps: read a model's file, or the folder of an encoder, and import it.

    Loading TVM is a step of its own: it takes a second.
    """
    if model.is_dir():
        given = {"--value": values, "--random-weights": random_weights, "--params": params}
        return import_encoder(steps, model, shapes, given)
    if model.suffix in RELAY_SUFFIXES:
        given = {"--shape": shapes, "--value": values, "--random-weights": random_weights}
        return import_relay(steps, model, given, params)
    if params is not None:
        known = ", ".join(RELAY_SUFFIXES)
        raise UsageError(f"--params is for saved Relay modules ({known}), not for {model}")
    with steps.step("Read model", of=model) as step:
        from tvm_hetero.frontends.onnx.load import load_model
        from tvm_hetero.frontends.onnx.model.model_digest import ModelDigest

        # What is wrong with the file, its shapes or the options is said at once.
        digest = ModelDigest()
        loaded = load_model(model, shapes=shapes, values=values, digest=digest)
        step.note = model.name
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.onnx.importer import import_checked
        from tvm_hetero.frontends.onnx.source import note_source

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model", of=model) as step:
        module = import_checked(loaded, model.stem, random_weights=random_weights)
        module = note_source(module, model, digest, shapes, values, random_weights)
        weights = "" if random_weights is None else f", random weights of seed {random_weights}"
        step.note = f"{count_noun(len(module['main'].params), 'input')}{weights}"
    return module


def import_encoder(
    steps: Steps, folder: Path, shapes: dict[str, tuple[int, ...]], given: Mapping[str, object]
) -> tvm.IRModule:
    """Step: read the folder of an encoder, as Hugging Face's libraries write it.

    `given` holds what options say that are for model files, by option.
    """
    for option, value in given.items():
        if value not in (None, {}):
            raise UsageError(f"{option} is for model files, and {folder} is a folder")
    with steps.step("Load TVM") as step:
        import tvm

        from tvm_hetero.frontends.huggingface.encoders.importer import encoder_from_huggingface
        from tvm_hetero.passes.attributes import INPUT_NAMES

        step.note = f"TVM {tvm.__version__}"
    with steps.step("Import model", of=folder) as step:
        module = encoder_from_huggingface(folder, shapes=shapes)
        names = module["main"].attrs[INPUT_NAMES]
        sizes = ("x".join(str(int(extent)) for extent in p.ty.shape) for p in module["main"].params)
        inputs = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
        step.note = f"encoder of {inputs}"
    return module


def holds_encoder(model: Path) -> bool:
    """Whether this is the folder of an encoder.

    Raises
    ------
    ModelError
        It is the folder of a model that is neither encoder nor decoder.
    """
    from tvm_hetero.frontends.huggingface.encoders.config import is_encoder

    return (model / "config.json").is_file() and is_encoder(model)


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
    with steps.step("Import model", of=model) as step:
        module = from_json(model, params)
        kept = len(module["main"].params)
        step.note = f"{model.name}, {kept} input{'s' * (kept != 1)}"
    return module
