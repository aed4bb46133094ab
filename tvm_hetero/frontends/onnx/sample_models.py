"""The nine real networks that come with the onnx package, in seconds at hand."""

from __future__ import annotations

from pathlib import Path

import onnx

from tvm_hetero.errors import ModelError


def light_models() -> dict[str, Path]:
    """Return the paths of the ``light_*.onnx`` models of the installed onnx package.

    Their weights are constants without data (``ConstantOfShape``), a few kilobytes a
    model; use :func:`~tvm_hetero.frontends.onnx.randomize.randomize_weights` on them.

    Returns
    -------
    dict of str to Path
        By name, sorted: ``bvlc_alexnet``, ``densenet121``, ...

    Raises
    ------
    ModelError
        The installed onnx package does not bring them.
    """
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found = {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}
    if not found:
        raise ModelError(
            f"There are no light_*.onnx models in '{folder}'. Install the onnx wheel from the "
            "package registry, whole: pip install --force-reinstall onnx."
        )
    return found
