"""The machine: devices, links, memories; found on this host or read from a file."""

from __future__ import annotations

from tvm_hetero.platform.devices import HOST_KINDS, Device, Fabric, Link
from tvm_hetero.platform.model import Platform

__all__ = ["HOST_KINDS", "Device", "Fabric", "Link", "Platform"]
