"""Users of ``dense`` for locust, which the Python of ``build/locust`` runs (``make locust``)."""

from __future__ import annotations

from locust import HttpUser, constant, task

BODY = {"inputs": [{"name": "input0", "shape": [1, 32], "datatype": "FP32", "data": [0.5] * 32}]}


class DenseUser(HttpUser):
    """Asks, waits for the answer, and asks again."""

    wait_time = constant(0.01)

    @task
    def infer(self) -> None:
        """One query, as JSON."""
        with self.client.post("/v2/models/dense/infer", json=BODY, catch_response=True) as response:
            if response.json()["outputs"][0]["shape"] != [1, 10]:
                response.failure("another shape")
