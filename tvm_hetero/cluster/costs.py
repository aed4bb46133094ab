"""Costs that each node measures for its own devices.

Kernels go to the nodes as text, and what a node found out comes back as text: the choices of
implementations with their times, and the traces of tuned schedules. From there on they are costs
like any others. Nodes are asked one after the other, since several may be on one machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.kernel_text import kernels_to_text
from tvm_hetero.cluster.parts.part_plan import nodes_of, sub_platform
from tvm_hetero.cost_models.kernels_alone.profile import Profile
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import Costs, Progress, require_a_device
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import choices_from_dict

# Seconds that a node may measure; it does not answer in between.
_MEASURING = 3600.0


class ClusterCosts(ProfiledCosts):
    """Costs of kernels alone, measured by the nodes of a cluster (see the file's text)."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(in_place=False)
        self.cluster = cluster

    @property
    def name(self) -> str:
        """What it is called."""
        return "cluster"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        """Costs of every kernel on every device of the cluster; see `ProfiledCosts.costs`.

        Raises
        ------
        NodeLost
            If a node is lost meanwhile.
        """
        text = kernels_to_text(kernels)
        self.profile = Profile()
        nodes = nodes_of(platform)
        for number, node in enumerate(nodes):
            if progress is not None:
                progress(f"measure on {node}", number, len(nodes))
            own = json.dumps(sub_platform(platform, node).to_dict())
            found = json.loads(
                self.cluster.get(self.cluster.call(node, "profile", text, own)[0], node, _MEASURING)
            )
            choices = choices_from_dict(found["choices"], f"choices of node {node!r}")
            self.profile.choices |= {(c.kernel, c.device): c for c in choices}
            for kernel, row in found["traces"].items():
                self.profile.traces.setdefault(kernel, {}).update(row)
            self.profile.reasons |= found["reasons"]
        devices = [device for device in platform.devices if device.target is not None]
        result = self.profile.costs(kernels, devices)
        require_a_device(result, self.profile.reasons)
        return result
