"""Gathers and scatters whose indices may be counted from the end, as ONNX has them."""
