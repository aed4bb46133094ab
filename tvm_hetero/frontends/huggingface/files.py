"""Files of a model's folder: opened by plain names, without leaving the folder.

A folder that was downloaded is someone else's text: an index that names ``../../key``, a symbolic
link, a hard link to someone's file, a named pipe. So names are checked, links are not followed,
and what is checked is the file that was opened, not its path.

One kind of link is: the cache of Hugging Face's hub keeps ``snapshots/<revision>/<name>`` as a link
to ``../../blobs/<hash>``. Such a link is read as the name of a blob, which is opened the same way.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from tvm_hetero.errors import ModelError
from tvm_hetero.util.plain_file import read_at_most
from tvm_hetero.util.untrusted_names import printable

_ADVICE = "Only plain files in the model's own folder are read."
_HUB_BLOBS = "../../blobs"
_HUB_LINK = re.compile(rf"{re.escape(_HUB_BLOBS)}/([0-9a-f]{{40,64}})")


def open_file(folder: Path, name: str) -> BinaryIO:
    """Open a file of a folder for reading.

    Parameters
    ----------
    folder
        The model's folder.
    name
        The file's plain name, without folders.

    Raises
    ------
    ModelError
        The name leads elsewhere, or there is no plain file of that name.
    """
    _check_name(name)
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ModelError(
            f"{printable(folder, 300)}: {_reason(error)}; expected the folder of a Hugging Face "
            "model, with config.json in it"
        ) from None
    try:
        descriptor = _open(root, name)
    except OSError as error:
        raise ModelError(f"{printable(folder / name, 300)}: {_reason(error)}. {_ADVICE}") from None
    finally:
        os.close(root)
    fault = _fault(os.fstat(descriptor))
    if fault:
        os.close(descriptor)
        raise ModelError(f"{printable(folder / name, 300)}: {fault}. {_ADVICE}")
    return os.fdopen(descriptor, "rb")


def read_text(folder: Path, name: str, most: int) -> str:
    """The text of a small file.

    Raises
    ------
    ModelError
        As `open_file`; or it is larger than ``most`` bytes, or no UTF-8.
    """
    with open_file(folder, name) as file:
        data = read_at_most(file, most)
    if len(data) > most:
        raise ModelError(f"{printable(folder / name, 300)}: larger than {most} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{printable(folder / name, 300)}: is not UTF-8 text") from None


def has_file(folder: Path, name: str) -> bool:
    """Whether something of that name is there."""
    return os.path.lexists(folder / name)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or not name.isprintable() or set(name) & set("/\\:"):
        raise ModelError(
            f"the name of a file is '{printable(name)}', which is not plain or leaves the model's "
            f"folder. {_ADVICE}"
        )


def _open(root: int, name: str) -> int:
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(name, flags, dir_fd=root)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        blob = _HUB_LINK.fullmatch(os.readlink(name, dir_fd=root))
        if blob is None:
            raise
    blobs = os.open(_HUB_BLOBS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    try:
        return os.open(blob.group(1), flags, dir_fd=blobs)
    finally:
        os.close(blobs)


def _fault(state: os.stat_result) -> str:
    """What is wrong with an opened file, nothing if it is plain."""
    if not stat.S_ISREG(state.st_mode):
        return "is not a plain file"
    return f"has {state.st_nlink} hard links" if state.st_nlink > 1 else ""


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "does not exist"
    if error.errno == errno.ELOOP:
        return "is a symbolic link"
    return f"cannot be opened ({error.strerror})"
