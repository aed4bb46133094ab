"""SHA-256 of the very bytes that a model was made of, whatever lies in its files a moment later."""

from __future__ import annotations

import hashlib


class ModelDigest:
    """Takes note of a model's file, and of what was read of weights in other files."""

    def __init__(self) -> None:
        self._file = ""
        self._weights = hashlib.sha256()
        self._is_external = False

    def add_file(self, data: bytes) -> None:
        """Note the bytes of the model's own file."""
        self._file = hashlib.sha256(data).hexdigest()

    def add_weights(self, data: bytes) -> None:
        """Note the bytes of a tensor that lies in another file; in the model's order."""
        self._weights.update(data)
        self._is_external = True

    def to_dict(self) -> dict[str, str]:
        """``sha256`` of the file, and ``weights_sha256`` where other files were read."""
        row = {"sha256": self._file}
        return row | {"weights_sha256": self._weights.hexdigest()} if self._is_external else row
