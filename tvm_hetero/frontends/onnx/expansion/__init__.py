"""ONNX to ONNX: what TVM's importer does not take, in terms of what it takes.

:func:`~tvm_hetero.frontends.onnx.expansion.walk.expand_graph` is the way in.  To add an operator,
write a rewriter (`registry`) in a file of this folder and import that file in `rewriters`.
"""
