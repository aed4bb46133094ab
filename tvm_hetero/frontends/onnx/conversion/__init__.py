"""ONNX to Relax, node by node: by a converter of ours, else by TVM's importer.

To add an operator, or to take one over from TVM, write a converter (`registry`) in a file of this
folder and import that file in `converters`.
"""
