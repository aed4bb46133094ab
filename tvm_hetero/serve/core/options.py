"""How a server is run: what the command line says, checked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.limits import Limits

LOOPBACK = "127.0.0.1"
_LEAST_KEY, _MOST_KEY = 16, 4096  # characters: shorter ones can be tried out
_KEY = re.compile(rf"[ -~]{{{_LEAST_KEY},{_MOST_KEY}}}")


@dataclass(frozen=True)
class ServeOptions:
    """Addresses, keys, objectives.

    Attributes
    ----------
    host, port : where it listens; port 0: any that is free.
    slo : seconds by model in which its queries shall be answered.
    adapt : whether pipelines are watched, and changed where something disturbs them.
    admin : whether models can be loaded and unloaded over HTTP.
    key, admin_key : that clients must send (``Authorization: Bearer KEY``); None: none, and for
        administration `key`.
    hosts : further names by which clients may call a server on loopback.
    policy : how places are shared (`serve.scheduling`).
    best_effort : what cannot be in time is taken as a query without deadline, not refused.
    drain : seconds in which what was accepted may end after SIGTERM.
    compatible_metrics : also under the names of Triton and vLLM.
    """

    host: str = LOOPBACK
    port: int = 8000
    slo: Mapping[str, float] = field(default_factory=dict)
    adapt: bool = False
    admin: bool = False
    key: str | None = None
    admin_key: str | None = None
    hosts: tuple[str, ...] = ()
    policy: str = "accordion"
    best_effort: bool = False
    drain: float = 30.0
    compatible_metrics: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for what, key in (("key", self.key), ("admin key", self.admin_key)):
            if key is not None and not _KEY.fullmatch(key):
                raise UsageError(f"the {what} has {len(key)} characters; expected {_LEAST_KEY} to "
                                 f"{_MOST_KEY} of ASCII in one line")  # fmt: skip
        for model, seconds in self.slo.items():
            if not 0 < seconds < float("inf"):
                raise UsageError(f"--slo {model}: expected a time above 0, got {seconds}")
        if self.admin and self.admin_key is None and not self.is_loopback:
            raise UsageError("--admin on an address that others can reach needs --admin-key-file")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
