"""Computes the replicas that keep every pod that may hold a job and end the chosen pods. It needs no cluster.

If a Deployment has too many pods, Kubernetes ends first those without a node, then those that are not ready, then those
with the lowest deletion cost. So the chosen pods are marked with the lowest possible cost. The number of replicas is
lowered one look later, when the controller has seen the marks, and only if no other pod would be ended before the
marked ones. The controller guarantees nothing: if a marked pod outlives the lowering, the number is not lowered again,
because that could cost another pod. A StatefulSet always ends the pod with the highest ordinal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# The lowest cost that Kubernetes accepts. Other tools, such as Karpenter, set it too, so ENDED marks our own pods.
LOWEST_COST = "-2147483648"
ENDED = "callsheet/ended"
MARKED, LOWERED = "marked", "lowered"


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    # A pod without a node has never run, so no worker was ever in it.
    has_node: bool = True
    is_ready: bool = True
    # This driver ended the pod and gave it the lowest deletion cost.
    is_marked: bool = False
    # This driver also lowered the replicas for the pod.
    is_lowered: bool = False

    @classmethod
    def read(cls, described: Any) -> Pod | None:
        """None for a pod that has ended or is ending: the controller does not count it either."""
        if described.metadata.deletion_timestamp is not None or described.status.phase in ("Succeeded", "Failed"):
            return None
        annotations = described.metadata.annotations or {}
        ended = annotations.get(ENDED) if annotations.get(DELETION_COST) == LOWEST_COST else None
        conditions = {each.type: each.status for each in described.status.conditions or ()}
        return cls(
            name=described.metadata.name,
            has_node=bool(described.spec.node_name),
            is_ready=conditions.get("Ready") == "True",
            is_marked=ended in (MARKED, LOWERED),
            is_lowered=ended == LOWERED,
        )

    @property
    def ordinal(self) -> int:
        """The number at the end of the name of a StatefulSet's pod; -1 for another pod."""
        number = self.name.rpartition("-")[2]
        return int(number) if number.isdigit() else -1


def staying(pods: Iterable[Pod]) -> int:
    """Pods of a Deployment that may hold a job and were not ended."""
    return sum(pod.has_node and not pod.is_marked for pod in pods)


def deployment_replicas(pods: Collection[Pod], replicas: int, wanted: int) -> int:
    """The replicas with which no pod that may hold a job is ended. While marked pods exist, the number does not change:
    a higher number would keep them."""
    if any(pod.is_marked for pod in pods):
        return replicas
    number = max(wanted, staying(pods))
    return max(number, replicas) if in_the_way(pods) else number


def mark(state: str) -> dict[str, str]:
    return {DELETION_COST: LOWEST_COST, ENDED: state}


def in_the_way(pods: Collection[Pod]) -> Pod | None:
    """An unmarked pod that Kubernetes would end before the marked ones."""
    return next((pod for pod in pods if pod.has_node and not pod.is_ready and not pod.is_marked), None)


def stateful_replicas(pods: Collection[Pod], wanted: int) -> int:
    """The replicas with which no pod that may hold a job is ended."""
    return max([wanted, *(pod.ordinal + 1 for pod in pods if pod.has_node)])


def stateful_replicas_without(replicas: int, name: str, ended: Collection[str]) -> int:
    """The replicas without the highest ordinals, down to the first pod that was not ended."""
    while replicas > 0 and f"{name}-{replicas - 1}" in ended:
        replicas -= 1
    return replicas


def ending_order(pods: Iterable[Pod]) -> Sequence[str]:
    """The pods of a StatefulSet in the only order in which they can be ended."""
    return [pod.name for pod in sorted(pods, key=lambda pod: -pod.ordinal)]
