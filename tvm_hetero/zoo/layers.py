"""Layers of convolutional networks on tensors of shape (channels, height, width).

Each is one task, as after operator fusion: normalisation and activation are part of the convolution
before them and cost no task of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.work_graph import Builder, Value


def conv(
    net: Builder,
    x: Value,
    channels: int,
    kernel: int | tuple[int, int] = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    same: bool = True,
    add: Value | None = None,
    bias: int = 2,
    out_ratio: int = 1,
) -> Value:
    """A convolution with `bias` numbers a channel (2: a normalisation, 1: a bias), then `add`.

    `same` pads so that stride 1 keeps height and width. `out_ratio` > 1 is a transposed convolution
    that makes the tensor larger by that factor.
    """
    c, h, w = x.shape
    kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
    if out_ratio > 1:
        oh, ow = h * out_ratio, w * out_ratio
    else:
        oh, ow = shrink(h, kh, stride, same), shrink(w, kw, stride, same)
    weights = channels * (c // groups) * kh * kw
    # A transposed convolution multiplies at every input position, a plain one at every output.
    places = h * w if out_ratio > 1 else oh * ow
    depthwise = groups > 1 and groups == c
    return net.add(
        ("depthwise" if depthwise else "conv") + f"{kh}x{kw}",
        "depthwise" if depthwise else "conv",
        [x] if add is None else [x, add],
        (channels, oh, ow),
        flops=2.0 * weights * places + (channels * oh * ow if add is not None else 0),
        weights=weights + bias * channels,
    )


def shrink(size: int, kernel: int, stride: int, same: bool) -> int:
    """Height or width after a window of `kernel` with `stride`.

    Raises
    ------
    UsageError
        If nothing is left: the image was too small for the network.
    """
    left = -(-size // stride) if same else (size - kernel) // stride + 1
    if left < 1:
        raise UsageError(f"a window of {kernel} on {size} points: expected a larger resolution")
    return left


def pool(
    net: Builder, x: Value, kernel: int, stride: int, *, same: bool = True, op: str = "maxpool"
) -> Value:
    """Pooling over windows of kernel x kernel."""
    c, h, w = x.shape
    shape = (c, shrink(h, kernel, stride, same), shrink(w, kernel, stride, same))
    flops = kernel * kernel * shape[0] * shape[1] * shape[2]
    return net.add(op, "elementwise", [x], shape, flops=flops)


def global_pool(net: Builder, x: Value) -> Value:
    """The mean over height and width."""
    return net.add("avgpool", "elementwise", [x], (x.shape[0],), flops=x.size)


def dense(net: Builder, x: Value, units: int, *, op: str = "dense") -> Value:
    """A fully connected layer with bias on all numbers of `x`."""
    weights = x.size * units
    return net.add(op, "gemm", [x], (units,), flops=2.0 * weights, weights=weights + units)


def concat(net: Builder, xs: Sequence[Value]) -> Value:
    """Channels of several tensors after one another."""
    _, h, w = xs[0].shape
    shape = (sum(x.shape[0] for x in xs), h, w)
    return net.add("concat", "elementwise", xs, shape)


def total(net: Builder, xs: Sequence[Value], op: str = "add") -> Value:
    """The sum of tensors of one shape."""
    return net.add(op, "elementwise", xs, xs[0].shape, flops=len(xs) * xs[0].size)


def classifier(net: Builder, x: Value, classes: int = 1000) -> None:
    """Global pooling, a dense layer and the output."""
    net.output(dense(net, global_pool(net, x), classes, op="classifier"))
