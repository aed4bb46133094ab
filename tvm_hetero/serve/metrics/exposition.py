"""A registry as a scraper reads it: in Prometheus's own format, or in OpenMetrics if it asks."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

# Counters of Triton's lack ``_total``. OpenMetrics knows no such counter, and has them as of no
# known type; the older format, which Triton speaks, has.
_UNTYPED = re.compile(rb"^(# TYPE nv_inference_\w+) untyped$", re.M)


def render(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """All families, and the type of the text.

    Parameters
    ----------
    accept : the scraper's ``Accept`` header.
    """
    encode, kind = choose_encoder(accept)
    return _UNTYPED.sub(rb"\1 counter", encode(registry)), kind
