"""The part of Kubernetes that the driver talks to, with its real paths, versions, conflicts and rights, and with the
controllers behind it: they choose the pods to end in the order that Kubernetes documents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

NAMESPACE = "callsheet"
NAME = "face-swap-workers"
RBAC = Path(__file__).parents[3] / "deploy" / "kubernetes" / "rbac.yaml"
COST = "controller.kubernetes.io/pod-deletion-cost"
KINDS = {"deployments": "Deployment", "statefulsets": "StatefulSet"}
Objects = dict[str, dict[str, Any]]


def rights() -> list[Mapping[str, Any]]:
    """The rights of the role that the documentation gives to the control plane."""
    [role] = [each for each in yaml.safe_load_all(RBAC.read_text()) if each["kind"] == "Role"]
    return list(role["rules"])


class Cluster:
    """One Deployment or StatefulSet and its pods. Controllers act only when a test calls them."""

    def __init__(self, resource: str = "deployments", replicas: int = 0):
        self.resource = resource
        self.replicas = replicas
        self.url = ""
        self.version = 1
        self.pods: Objects = {}
        self.rules = rights()
        self.requests: list[tuple[str, str]] = []
        # The number of next writes of the scale that conflict with another writer.
        self.others = 0
        # The behavior of versions before 1.22.
        self.ignores_cost = False
        # While this is not set, a write of the scale takes effect, but its response does not arrive.
        self.responses = asyncio.Event()
        self.responses.set()
        self._numbers = itertools.count(1)

    # The actions of controllers and nodes.

    def reconcile(self) -> None:
        """The workload's controller changes the pods to the wanted number."""
        active = [pod for pod in self.pods.values() if "deletionTimestamp" not in pod["metadata"]]
        if self.resource == "statefulsets":
            for name in [name for name in self.pods if int(name.rpartition("-")[2]) >= self.replicas]:
                del self.pods[name]
            for ordinal in range(self.replicas):
                if f"{NAME}-{ordinal}" not in self.pods:
                    self._create(f"{NAME}-{ordinal}")
            return
        for _ in range(self.replicas - len(active)):
            self._create(f"{NAME}-5d9c7-{next(self._numbers):05}")
        order = (lambda pod: _deletion_order(pod)[:3]) if self.ignores_cost else _deletion_order
        for pod in sorted(active, key=order)[: max(0, len(active) - self.replicas)]:
            del self.pods[pod["metadata"]["name"]]

    def run_pods(self, *names: str, ready: bool = True) -> None:
        """Gives pods a node and starts them; all pods if none is named."""
        for name in names or list(self.pods):
            self.pods[name]["spec"]["nodeName"] = "node-1"
            self.pods[name]["status"] = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            }

    def grow(self, replicas: int) -> list[str]:
        self.replicas = replicas
        self.reconcile()
        self.run_pods()
        return sorted(self.pods)

    def _create(self, name: str) -> None:
        self.pods[name] = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": NAME}},
            "spec": {"containers": [{"name": "worker"}]},
            "status": {"phase": "Pending"},
        }

    # The responses of the API server.

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._authorize])
        scale = f"/apis/apps/v1/namespaces/{NAMESPACE}/{{resource}}/{{name}}/scale"
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        app.add_routes(
            [
                web.get(scale, self._read_scale),
                web.put(scale, self._write_scale),
                web.get(pods, self._list_pods),
                web.patch(pods + "/{name}", self._patch_pod),
            ]
        )
        return app

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Any) -> web.StreamResponse:
        verb = {"GET": "get", "PUT": "update", "PATCH": "patch"}[request.method]
        if request.path.endswith("/pods"):
            verb = "list"
        name = request.match_info.get("name")
        resource = "pods" if "/pods" in request.path else f"{request.match_info.get('resource')}/scale"
        self.requests.append((verb, resource))
        if request.headers.get("Authorization") != "Bearer right":
            return _status(401, "Unauthorized", "Unauthorized")
        allowed = any(
            verb in rule["verbs"] and resource in rule["resources"] and name in rule.get("resourceNames", [name])
            for rule in self.rules
        )
        if not allowed:
            return _status(403, "Forbidden", f'{resource} "{name}" is forbidden: cannot {verb}')
        response: web.StreamResponse = await handler(request)
        return response

    def _scale(self) -> dict[str, Any]:
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "resourceVersion": str(self.version)},
            "spec": {"replicas": self.replicas} if self.replicas else {},
            "status": {"replicas": len(self.pods), "selector": f"app={NAME}"},
        }

    async def _read_scale(self, request: web.Request) -> web.Response:
        if (request.match_info["resource"], request.match_info["name"]) != (self.resource, NAME):
            return _status(404, "NotFound", f'{request.match_info["resource"]}.apps "{NAME}" not found')
        return web.json_response(self._scale())

    async def _write_scale(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.others:
            self.others -= 1
            self.version += 1
        if body["metadata"]["resourceVersion"] != str(self.version):
            return _status(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        self.replicas = body["spec"].get("replicas", 0)
        self.version += 1
        await self.responses.wait()
        return web.json_response(self._scale())

    async def _list_pods(self, request: web.Request) -> web.Response:
        key, _, value = request.query["labelSelector"].partition("=")
        items = [pod for pod in self.pods.values() if pod["metadata"]["labels"].get(key) == value]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": deepcopy(items)})

    async def _patch_pod(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _status(404, "NotFound", "pods not found")
        assert request.content_type in ("application/merge-patch+json", "application/strategic-merge-patch+json")
        pod["metadata"].setdefault("annotations", {}).update((await request.json())["metadata"]["annotations"])
        return web.json_response(pod)


def _deletion_order(pod: Mapping[str, Any]) -> tuple[bool, bool, bool, int]:
    """The order of deletion: pods without a node, then not running, then not ready, then those with the lowest
    deletion cost.
    """
    status = pod["status"]
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
    cost = int(pod["metadata"].get("annotations", {}).get(COST, "0"))
    return "nodeName" in pod["spec"], status["phase"] == "Running", ready, cost


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return web.json_response({**body, "code": code}, status=code, reason=reason)


@asynccontextmanager
async def serving(cluster: Cluster) -> AsyncIterator[str]:
    """The URL of the server."""
    runner = web.AppRunner(cluster.application(), access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        [address] = runner.addresses
        cluster.url = f"http://127.0.0.1:{address[1]}"
        yield cluster.url
    finally:
        await runner.cleanup()


def write_kubeconfig(file: Path, url: str, token: str = "right") -> None:
    name = {"name": "tests"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "clusters": [{**name, "cluster": {"server": url}}],
        "users": [{**name, "user": {"token": token}}],
        "contexts": [{**name, "context": {"cluster": "tests", "user": "tests"}}],
    }
    file.write_text(yaml.safe_dump(config))
