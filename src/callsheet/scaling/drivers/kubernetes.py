"""Driver for workers that are pods of a Deployment or a StatefulSet. A worker's id is the name of its pod.

It uses the asyncio part of the official client: a call that hangs is canceled instead of blocking a thread. It writes
only the scale subresource and the pods' annotations, so the control plane needs few rights (deploy/kubernetes).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from callsheet.scaling.driver import Actual, DriverError, ScaledFleet
from callsheet.scaling.drivers.options import checked_options, fits, read_options
from callsheet.scaling.drivers.pods import (
    DELETION_COST,
    LOWERED,
    MARKED,
    Pod,
    deployment_replicas,
    ending_order,
    in_the_way,
    mark,
    stateful_replicas,
    stateful_replicas_without,
    staying,
)
from callsheet.toolbox.errors import how_to_install
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import Line
from callsheet.wire.plurals import counted

log = get_logger(__name__)

# This file in a pod has the pod's namespace.
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
# If another client changes the scale between a read and a write, it is read again.
CONFLICT, NOT_FOUND, FORBIDDEN, UNAUTHORIZED, TOO_MANY = 409, 404, 403, 401, 429
TRIES = 5
RESPONSE_SECONDS = 10.0
MAX_MESSAGE_LENGTH = 300

Name = Annotated[
    str,
    AfterValidator(
        fits(
            r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
            "Use a Kubernetes name: 1 to 253 lower-case letters, digits, dots and dashes.",
        )
    ),
]


class KubernetesOptions(BaseModel):
    """The options of `callsheet fleets scale --driver kubernetes`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["deployment", "statefulset"] = Field("deployment", description="deployment or statefulset.")
    name: Name = Field(description="Name of the Deployment or StatefulSet.")
    namespace: Name | None = Field(None, description="Its namespace. Default: the control plane's own, or default.")
    context: Line | None = Field(
        None,
        description="Context in the kubeconfig. Default: the cluster it runs in, or the current one.",
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """The current state of a Deployment or StatefulSet."""

    scale: Any
    pods: tuple[Pod, ...]

    @property
    def replicas(self) -> int:
        return int(self.scale.spec.replicas or 0)


class Kubernetes:
    name = "kubernetes"
    about = "Sets the replicas of a Kubernetes Deployment or StatefulSet."

    def __init__(self, *, seconds: float = RESPONSE_SECONDS):
        self._seconds = seconds
        self._clients: dict[str | None, Any] = {}

    def options_schema(self) -> Mapping[str, Any]:
        return KubernetesOptions.model_json_schema()

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        return checked_options(KubernetesOptions, options).model_dump(exclude_none=True)

    async def actual(self, fleet: ScaledFleet) -> Actual:
        options = read_options(KubernetesOptions, fleet)
        workload = await self._workload(options)
        ids = frozenset(pod.name for pod in workload.pods)
        order = tuple(ending_order(workload.pods)) if options.kind == "statefulset" else ()
        return Actual(len(ids), ids, order, ordered=workload.replicas)

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        options = read_options(KubernetesOptions, fleet)
        allowed = min(wanted, fleet.policy.maximum)

        def replicas(workload: Workload) -> int:
            if options.kind == "statefulset":
                return stateful_replicas(workload.pods, allowed)
            return deployment_replicas(workload.pods, workload.replicas, allowed)

        await self._scale(options, replicas)

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        options = read_options(KubernetesOptions, fleet)
        if options.kind == "statefulset":
            await self._end_highest(options, worker_ids)
        else:
            await self._end_marked(options, worker_ids)

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _end_marked(self, options: KubernetesOptions, worker_ids: Sequence[str]) -> None:
        pods = (await self._workload(options)).pods
        new = [pod for pod in pods if pod.name in worker_ids and not pod.is_marked]
        for pod in new:
            await self._mark(options, pod, MARKED)
        if new:
            # The controller may not have seen the marks yet. The next look lowers the number of replicas.
            return
        after = await self._scale(options, _without_marked)
        if after.replicas < len(after.pods):
            for pod in after.pods:
                if pod.is_marked and not pod.is_lowered:
                    await self._mark(options, pod, LOWERED)

    async def _end_highest(self, options: KubernetesOptions, worker_ids: Sequence[str]) -> None:
        after = await self._scale(
            options, lambda workload: stateful_replicas_without(workload.replicas, options.name, worker_ids)
        )
        left = [pod.name for pod in after.pods if pod.name in worker_ids and pod.ordinal < after.replicas]
        if left:
            raise DriverError(
                f"A StatefulSet ends its highest pod first, and {options.name}-{after.replicas - 1} still works. "
                f"{', '.join(left)} goes after it. A Deployment has no such order."
            )

    async def _scale(self, options: KubernetesOptions, replicas: Callable[[Workload], int]) -> Workload:
        """Writes the number that `replicas` computes from the workload; after a conflict it is computed again."""
        for _ in range(TRIES):
            workload = await self._workload(options)
            number = replicas(workload)
            if number == workload.replicas:
                return workload
            # The write has the version that was read, so that no other client's change is lost.
            workload.scale.spec.replicas = number
            written = await self._call(
                options,
                f"replace_namespaced_{_resource(options)}_scale",
                options.name,
                _namespace(options),
                workload.scale,
                accepts=CONFLICT,
            )
            if written is not None:
                log.info("scaling.kubernetes_replicas", name=options.name, now=number)
                return Workload(written, workload.pods)
        raise DriverError(
            f"Something else changes the scale of {_described(options)} again and again, for example an autoscaler of "
            "Kubernetes. Only one may do so."
        )

    async def _workload(self, options: KubernetesOptions) -> Workload:
        namespace = _namespace(options)
        scale = await self._call(options, f"read_namespaced_{_resource(options)}_scale", options.name, namespace)
        selector = scale.status.selector if scale.status is not None else None
        if not selector:
            raise DriverError(f"{_described(options)} has no selector, so its pods cannot be found.")
        listed = await self._call(options, "list_namespaced_pod", namespace, label_selector=selector)
        return Workload(scale, tuple(pod for each in listed.items if (pod := Pod.read(each)) is not None))

    async def _mark(self, options: KubernetesOptions, pod: Pod, state: str) -> None:
        body = {"metadata": {"annotations": mark(state)}}
        await self._call(options, "patch_namespaced_pod", pod.name, _namespace(options), body, accepts=NOT_FOUND)

    async def _call(
        self, options: KubernetesOptions, action: str, *arguments: Any, accepts: int | None = None, **named: Any
    ) -> Any:
        """Returns the API server's response; None if it refuses with the status `accepts`."""
        client = await self._client(options.context)
        from aiohttp import ClientError
        from kubernetes.aio.client import AppsV1Api, CoreV1Api
        from kubernetes.aio.client.exceptions import ApiException

        api = CoreV1Api(client) if action.endswith("_pod") else AppsV1Api(client)
        try:
            async with asyncio.timeout(self._seconds):
                return await getattr(api, action)(*arguments, **named)
        except ApiException as error:
            if error.status == accepts:
                return None
            if error.status == UNAUTHORIZED:
                # The next call reads an expired token again.
                await self._clients.pop(options.context).close()
            raise DriverError(_sentence(options, action, error)) from None
        except TimeoutError:
            raise DriverError(
                f"The Kubernetes API did not respond to {action} in {counted(self._seconds, 'second')} and may "
                "have acted. "
                "The request is repeated."
            ) from None
        except (OSError, ClientError) as error:
            raise DriverError(f"The Kubernetes API cannot be reached: {str(error)[:MAX_MESSAGE_LENGTH]}") from None
        except ValueError as error:
            raise DriverError(f"The Kubernetes API returned {action} with nonsense: {str(error)[:100]}") from None

    async def _client(self, context: str | None) -> Any:
        if context not in self._clients:
            if find_spec("kubernetes") is None:
                raise DriverError(
                    f"The driver kubernetes needs the package of that name: {how_to_install('server,kubernetes')}."
                )
            # The import takes two seconds and 50 MB; other drivers do not need it.
            await asyncio.to_thread(import_module, "kubernetes.aio.client")
            self._clients[context] = await _connect(context)
        return self._clients[context]


def _without_marked(workload: Workload) -> int:
    """The replicas with which exactly the marked pods are ended."""
    marked = [pod.name for pod in workload.pods if pod.is_marked]
    if not marked or workload.replicas < len(workload.pods):
        # No pod is marked, or the controller is still ending pods.
        return workload.replicas
    if any(pod.is_lowered for pod in workload.pods):
        raise DriverError(
            f"Kubernetes ended other pods and kept {', '.join(marked)}, so no more pods are ended. Its controller must "
            f"follow {DELETION_COST}, which it does from version 1.22 on. Delete these pods by hand."
        )
    before = in_the_way(workload.pods)
    if before is not None:
        raise DriverError(
            f"The pod {before.name} is not ready, so Kubernetes would end it before {', '.join(marked)}. The fleet "
            "gets smaller when it is ready."
        )
    return staying(workload.pods)


async def _connect(context: str | None) -> Any:
    from kubernetes.aio import client, config

    configuration = client.Configuration()
    try:
        if context is None and await asyncio.to_thread(OWN_NAMESPACE.exists):
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(context=context, client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise DriverError(
            f"There is no way to the Kubernetes API ({error}). Run the control plane in the cluster, or name a "
            "kubeconfig with KUBECONFIG."
        ) from None
    return client.ApiClient(configuration)


def _resource(options: KubernetesOptions) -> str:
    return {"deployment": "deployment", "statefulset": "stateful_set"}[options.kind]


def _described(options: KubernetesOptions) -> str:
    kind = {"deployment": "Deployment", "statefulset": "StatefulSet"}[options.kind]
    return f"The {kind} {options.name} in the namespace {_namespace(options)}"


def _namespace(options: KubernetesOptions) -> str:
    if options.namespace is not None:
        return options.namespace
    try:
        return OWN_NAMESPACE.read_text("utf-8").strip() or "default"
    except OSError:
        return "default"


def _sentence(options: KubernetesOptions, action: str, error: Any) -> str:
    message = " ".join(str(error.reason or "").split())
    if error.status == NOT_FOUND:
        return f"{_described(options)} does not exist."
    if error.status in (FORBIDDEN, UNAUTHORIZED):
        return (
            f"The Kubernetes API refused {action} ({error.status}): the control plane's account needs the rights in "
            "deploy/kubernetes/rbac.yaml."
        )
    if error.status == TOO_MANY:
        return f"The Kubernetes API limits the rate of calls and refused {action}. The request is repeated."
    return f"The Kubernetes API refused {action} ({error.status} {message})."[:MAX_MESSAGE_LENGTH]
