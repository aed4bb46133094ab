"""A registry as a scraper reads it: in Prometheus's own format, or in OpenMetrics if it asks."""

from __future__ import annotations

import re
from functools import partial

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import exposition as openmetrics

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
    if isinstance(encode, partial):
        # prometheus_client 0.26 would write ``vllm_`` in samples and ``vllm:`` above them. Colons
        # are legal, and we have no other name that is to be escaped.
        encode = partial(encode, escaping=openmetrics.ALLOWUTF8)
    return _UNTYPED.sub(rb"\1 counter", encode(registry)), kind
