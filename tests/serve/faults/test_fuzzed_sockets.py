"""A hundred broken requests of fixed seeds; `tests.fuzz.serve_sockets` makes more of them."""

from __future__ import annotations

import random

from tests.fuzz.serve_sockets import fuzz, fuzzed_server, mutate, valid_requests
from tests.serve.faults.raw_socket import RawSocket


def test_broken_requests_are_answered_or_cut_off_and_break_nothing(served_models):
    with fuzzed_server(served_models) as server:
        counts, faults = fuzz(server, iter(range(120)), 60.0)
    assert not faults
    assert sum(counts.values()) == 120
    assert counts["400"] > 12 and counts["200"] > 3  # neither all broken nor all whole


def test_what_is_broken_was_right_before(served_models):
    with fuzzed_server(served_models) as server:
        for request in valid_requests():
            with RawSocket(server.address) as client:
                assert client.send(request).reply().status == 200, request[:80]


def test_a_seed_makes_the_same_request_again():
    made = [mutate(valid_requests()[5], random.Random(seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
