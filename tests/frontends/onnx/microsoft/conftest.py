"""What operators give is computed in this process."""

from tests.frontends.onnx.inline import inline  # noqa: F401  (an autouse fixture)
