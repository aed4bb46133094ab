"""ONNX Runtime behind FastAPI, as tutorials write it; for a virtual environment of its own.

python fastapi_server.py MODEL.onnx PORT THREADS
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool


def make_app(session: onnxruntime.InferenceSession) -> FastAPI:
    """The two routes: JSON in and out, bytes in and out."""
    app = FastAPI()
    [given] = session.get_inputs()

    def run(x: Any) -> Any:
        return session.run(None, {given.name: x})[0]

    @app.get("/v2/health/ready")
    def ready() -> dict[str, bool]:
        return {"ready": True}

    @app.post("/json")
    async def as_json(request: Request) -> dict[str, Any]:
        data = (await request.json())["inputs"][0]["data"]
        y = await run_in_threadpool(run, np.array(data, "float32").reshape(given.shape))
        return {"outputs": [{"name": "y", "shape": list(y.shape), "data": y.ravel().tolist()}]}

    @app.post("/binary")
    async def as_bytes(request: Request) -> Response:
        x = np.frombuffer(await request.body(), "float32").reshape(given.shape)
        y = await run_in_threadpool(run, x)
        return Response(y.tobytes(), media_type="application/octet-stream")

    return app


if __name__ == "__main__":
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[3])
    made = onnxruntime.InferenceSession(sys.argv[1], options)
    uvicorn.run(make_app(made), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
