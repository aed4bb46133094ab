"""Weights that a model keeps in other files: read them, and only from its own folder.

A model names such a file by a path of its own choosing, so the path is
attacker's text: ``/etc/passwd``, ``../../key``, a symbolic link, a hard link to
someone's file, a named pipe (CVE-2024-27318, CVE-2026-27489,
CVE-2026-34446/34447).  A check of the path followed by an open leaves a gap
between the two, so each component is opened from its parent's descriptor
without following links, and what is checked is the opened file itself.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from pathlib import Path

import onnx
from onnx import TensorProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.model_digest import ModelDigest
from tvm_hetero.frontends.onnx.model.tensors import all_tensors, byte_size
from tvm_hetero.util.untrusted_names import printable

_ADVICE = "Only plain files in the model's own folder (or a folder below) are read."
_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})


def load_external(model: onnx.ModelProto, folder: Path, digest: ModelDigest | None = None) -> None:
    """Bring all external data of `model` into `model` itself.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place.  Its tensor sizes have been checked (``check_sizes``).
    folder : Path
        The folder of the model's file.
    digest : ModelDigest, optional
        Takes note of what is read.

    Raises
    ------
    ModelError
        A location outside of the folder, a link, a special file, a file that is missing,
        unreadable or too short, a malformed offset or length.
    """
    for what, tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            data = _read(what, tensor, folder)
            if digest is not None:
                digest.add_weights(data)
            tensor.raw_data = data
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]


def refuse_external(model: onnx.ModelProto) -> None:
    """Refuse a model in memory that still points to files, since its folder is not known."""
    for what, tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ModelError(
                f"{what} keeps its data in another file, and a model in memory has no folder. "
                "Give the path of the model instead of the loaded model."
            )


def _read(what: str, tensor: TensorProto, folder: Path) -> bytes:
    """Return exactly the bytes that the tensor's shape asks for."""
    entries = {e.key: e.value for e in tensor.external_data}
    unknown = sorted(set(entries) - _KEYS)
    if unknown or len(entries) != len(tensor.external_data):
        raise ModelError(
            f"{what} has unknown or repeated keys in its external data"
            + (f": '{printable(unknown[0])}'" if unknown else "")
            + f". Known are {', '.join(sorted(_KEYS))}; export the model again."
        )
    wanted = byte_size(tensor.data_type, math.prod(tensor.dims), what)
    offset = _number(what, entries, "offset", 0)
    length = _number(what, entries, "length", wanted)
    if length != wanted:
        raise ModelError(
            f"{what} needs {wanted} bytes by its shape and type, but its external data states "
            f"a length of {length}. Export the model again."
        )
    location = entries.get("location", "")
    descriptor = _open(what, location, folder)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if offset + wanted > size:
            raise ModelError(
                f"{what} needs bytes {offset} to {offset + wanted} of the external file "
                f"'{printable(location)}', which has only {size}. Copy that file again, whole."
            )
        file.seek(offset)
        data = file.read(wanted)
    if len(data) != wanted:
        raise ModelError(f"'{printable(location)}' shrank while it was read: try again.")
    return data


def _number(what: str, entries: dict[str, str], key: str, default: int) -> int:
    """Return a non-negative decimal from the external data's text entries."""
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(
            f"{what} has the external data {key} '{printable(text)}'; "
            "a non-negative integer was expected. Export the model again."
        )
    return int(text)


def _parts(what: str, location: str) -> list[str]:
    """Return the components of a relative path that stays below its folder."""
    parts = location.split("/")
    bad = (
        not location
        or "\0" in location
        or "\\" in location
        or ":" in parts[0]  # a drive, or a protocol
        or parts[-1] == "."
        or any(part in ("", "..") for part in parts)
    )
    if bad:
        raise ModelError(
            f"{what} keeps its data in '{printable(location)}', which is absolute or leaves "
            f"the model's folder. {_ADVICE}"
        )
    return [part for part in parts if part != "."]


def _open(what: str, location: str, folder: Path) -> int:
    """Open `location` below `folder` component by component; return the descriptor."""
    parts = _parts(what, location)
    where = f"{what} keeps its data in '{printable(location)}', which"
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            # O_NONBLOCK: opening a named pipe must not wait for a writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | (os.O_NONBLOCK if last else os.O_DIRECTORY)
            step = os.open(part, flags, dir_fd=current)
            os.close(current)
            current = step
        state = os.fstat(current)
        if not stat.S_ISREG(state.st_mode):
            raise ModelError(f"{where} is not a plain file. {_ADVICE}")
        if state.st_nlink > 1:
            raise ModelError(
                f"{where} has {state.st_nlink} hard links. {_ADVICE} Make a copy of its own."
            )
    except OSError as error:
        os.close(current)
        raise ModelError(f"{where} {_reason(error)}. {_ADVICE}") from None
    except ModelError:
        os.close(current)
        raise
    return current


def _reason(error: OSError) -> str:
    """Return why an open failed, in words that tell a link from a missing file."""
    if error.errno == errno.ENOENT:
        return "does not exist"
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is reached over a symbolic link or something that is not a folder"
    return f"cannot be opened ({error.strerror})"
