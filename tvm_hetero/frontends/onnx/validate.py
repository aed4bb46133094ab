"""Is it a model at all, of a kind and size that we take, with sound names?

Everything here looks at counts and names, never at data.
"""

from __future__ import annotations

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.tensors import all_tensors, describe
from tvm_hetero.frontends.onnx.opsets import DEFAULT_DOMAINS, opset_version
from tvm_hetero.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from tvm_hetero.util.untrusted_names import printable

OLDEST_OPSET = 1


def check_structure(model: onnx.ModelProto, limits: OnnxLimits) -> None:
    """Refuse what is no model, or one of a version or size that is not taken.

    Raises
    ------
    ModelError
        No version, graph, nodes, outputs or opset; an unknown version; too many nodes;
        sparse weights; repeated or missing names.
    """
    _check_is_model(model)
    _check_contents(model, limits)
    _check_text(model)
    _check_versions(model)
    _check_names(model)
    _check_operators(model)
    _check_references(model)


def _check_is_model(model: onnx.ModelProto) -> None:
    """Refuse a message that is no model of any kind, or only the beginning of one."""
    if model.ir_version < 3 or not model.HasField("graph"):
        raise ModelError(
            "The file is no ONNX model, or was cut short: it has no "
            f"{'graph' if model.ir_version >= 3 else 'valid ir_version'}. "
            "Download or export it again."
        )


def _check_versions(model: onnx.ModelProto) -> None:
    opset = opset_version(model)
    if opset == 0 and any(e.domain.startswith("ai.onnx.") for e in model.opset_import):
        domains = ", ".join(sorted({f"'{printable(e.domain)}'" for e in model.opset_import}))
        raise ModelError(
            f"The model has operators of {domains} alone: classical machine learning (trees, "
            "linear models), or training. tvm_hetero divides neural networks; ONNX Runtime runs "
            "this model."
        )
    if opset == 0:
        raise ModelError(
            "The model names no version of the default operator set (opset_import), or was cut "
            "short. Download or export it again."
        )
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest or model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"The model is of opset {opset} and ir_version {model.ir_version}; opset "
            f"{OLDEST_OPSET} to {newest} and ir_version 3 to {onnx.IR_VERSION} are taken. "
            "Convert it with onnx.version_converter, or export it for another opset."
        )
    _check_versions_agree(model)


def _check_versions_agree(model: onnx.ModelProto) -> None:
    """Refuse two versions of one operator set; the same one twice (skl2onnx writes it) is one."""
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DEFAULT_DOMAINS else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelError(
                f"The model names two versions of the operator set '{printable(domain)}': "
                f"{versions[domain]} and {entry.version}. Export it for one of them."
            )
    if len(versions) < len(model.opset_import):
        del model.opset_import[:]
        model.opset_import.extend(
            onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()
        )


def _check_contents(model: onnx.ModelProto, limits: OnnxLimits) -> None:
    graph = model.graph
    if not graph.node or not graph.output:
        raise ModelError(
            f"The model has {len(graph.node)} nodes and {len(graph.output)} outputs, so there is "
            "nothing to partition. Export the model again."
        )
    if len(graph.node) > limits.nodes:
        raise ModelError(
            f"The model has {len(graph.node)} nodes; at most {limits.nodes} are accepted. "
            "Load it with a larger `limits=Limits(nodes=...)` if that is meant."
        )
    if graph.sparse_initializer or any(
        a.HasField("sparse_tensor") or a.sparse_tensors for n in graph.node for a in n.attribute
    ):
        raise ModelError("The model has sparse weights. Export it with dense ones.")


def _check_text(model: onnx.ModelProto) -> None:
    """Demand that names are text: protobuf hands over bytes for what is not UTF-8."""
    graph = model.graph
    texts: list[object] = [graph.name, model.producer_name, model.producer_version]
    texts.extend(o.domain for o in model.opset_import)
    for node in graph.node:
        texts.extend((node.name, node.op_type, node.domain, *node.input, *node.output))
        texts.extend(a.name for a in node.attribute)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        texts.append(value.name)
        texts.extend(d.dim_param for d in value.type.tensor_type.shape.dim)
    for _, tensor in all_tensors(model):
        texts.append(tensor.name)
        texts.extend(text for e in tensor.external_data for text in (e.key, e.value))
    for text in texts:
        if not isinstance(text, str):
            raise ModelError(
                f"The model has a name that is no text: {printable(text)} is not UTF-8. "
                "The file is damaged: download or export it again."
            )


def _check_operators(model: onnx.ModelProto) -> None:
    """Refuse nodes of the standard domain that are of no operator of the model's opset."""
    opset = opset_version(model)
    known = RUNTIME_OPERATORS | {f.name for f in model.functions if f.domain in DEFAULT_DOMAINS}
    for index, node in enumerate(model.graph.node):
        standard = node.domain in DEFAULT_DOMAINS and node.op_type not in known
        if standard and not onnx.defs.has(node.op_type, opset):
            raise ModelError(
                f"{describe(node, index)} is no operator of ONNX in opset {opset}. "
                "Check the exporter or its opset."
            )


def _check_references(model: onnx.ModelProto) -> None:
    """Refuse attributes that stand for those of a function's call where there is no function."""
    for index, node in enumerate(model.graph.node):
        bodies = [node]
        while bodies:
            for attribute in bodies.pop().attribute:
                if attribute.ref_attr_name:
                    raise ModelError(
                        f"{describe(node, index)}: the attribute '{printable(attribute.name)}' "
                        f"refers to '{printable(attribute.ref_attr_name)}', an attribute of a "
                        "function's call, but is in none. Export the model again."
                    )
                for body in (attribute.g, *attribute.graphs):
                    bodies.extend(body.node)


def _check_names(model: onnx.ModelProto) -> None:
    """Demand that each value has one name and one maker."""
    graph = model.graph
    made = {t.name: "an initializer" for t in graph.initializer}
    if len(made) != len(graph.initializer) or "" in made:
        raise ModelError("Two initializers share a name, or one has none. Export the model again.")
    seen: set[str] = set()
    for value in graph.input:
        if value.name in seen or not value.name:
            raise ModelError(
                f"The input '{printable(value.name)}' appears twice or has no name. "
                "Export the model again."
            )
        seen.add(value.name)
        made.setdefault(value.name, "an input")
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in made:
                raise ModelError(
                    f"{describe(node, index)} makes '{printable(name)}', which is already made "
                    f"by {made[name]}. Each value may be made once: export the model again."
                )
            made[name] = describe(node, index)
    missing = [o.name for o in graph.output if o.name not in made]
    if missing or len({o.name for o in graph.output}) != len(graph.output):
        raise ModelError(
            "The model names an output twice, or one that no node makes"
            + (f": '{printable(missing[0])}'" if missing else "")
            + ". It may have been cut short: export it again."
        )
