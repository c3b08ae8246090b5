"""A fleet that is a Deployment or a StatefulSet: exactly the drained pods go, with the rights of deploy/kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.scaling.driver import DriverError, OptionError, ScaledFleet
from callsheet.scaling.drivers.kubernetes import Kubernetes
from callsheet.scaling.policy import Policy
from tests.support.fleets.kubernetes_api import COST, NAME, NAMESPACE, Cluster, serving, write_kubeconfig
from tests.support.run.ports import free_port

pytestmark = pytest.mark.thorough


@pytest.fixture
async def driver() -> AsyncIterator[Kubernetes]:
    driver = Kubernetes(seconds=60)
    yield driver
    await driver.close()


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The client reads the variable once, when it is loaded.
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
async def deployment(kubeconfig: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster("deployments")
    async with serving(cluster) as url:
        write_kubeconfig(kubeconfig, url)
        yield cluster


@pytest.fixture
async def stateful(kubeconfig: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster("statefulsets")
    async with serving(cluster) as url:
        write_kubeconfig(kubeconfig, url)
        yield cluster


def fleet(*, maximum: int = 5, **options: Any) -> ScaledFleet:
    named = {"name": NAME, "namespace": NAMESPACE, **options}
    return ScaledFleet(1, "face-swap", "production", Policy(maximum=maximum), "kubernetes", named)


STATEFUL = fleet(kind="statefulset")


async def test_a_deployment_grows_to_the_wanted_number_and_never_above_the_maximum(
    deployment: Cluster, driver: Kubernetes
) -> None:
    await driver.want(fleet(), 2, 0)
    assert deployment.replicas == 2
    deployment.reconcile()
    actual = await driver.actual(fleet())
    assert (actual.count, actual.worker_ids) == (2, frozenset(deployment.pods))
    await driver.want(fleet(maximum=3), 9, 0)
    assert deployment.replicas == 3


async def test_only_the_drained_pods_of_a_deployment_are_ended(deployment: Cluster, driver: Kubernetes) -> None:
    [first, drained, third, also] = deployment.grow(4)
    await driver.end(fleet(), [drained, also])
    assert deployment.replicas == 4, "the controller may not have seen the marks yet"
    await driver.end(fleet(), [drained, also])
    assert deployment.replicas == 2
    # Repeated before the controller has acted, it asks for nothing more.
    await driver.end(fleet(), [drained, also])
    assert deployment.replicas == 2
    deployment.reconcile()
    assert sorted(deployment.pods) == [first, third]
    await driver.end(fleet(), [drained, also])
    assert deployment.replicas == 2, "those that are gone are no error, and none goes in their place"


async def test_a_deletion_cost_that_another_program_wrote_is_ignored(deployment: Cluster, driver: Kubernetes) -> None:
    [other, _] = deployment.grow(2)
    deployment.pods[other]["metadata"]["annotations"] = {COST: "-2147483648"}
    await driver.want(fleet(), 1, 0)
    assert deployment.replicas == 2


async def test_a_lower_wanted_number_ends_no_pod_that_may_hold_a_job(deployment: Cluster, driver: Kubernetes) -> None:
    deployment.grow(3)
    await driver.want(fleet(), 1, 0)
    assert deployment.replicas == 3


async def test_pods_that_never_got_a_node_are_deleted(deployment: Cluster, driver: Kubernetes) -> None:
    running = deployment.grow(2)
    await driver.want(fleet(), 5, 0)
    deployment.reconcile()
    await driver.want(fleet(), 2, 0)
    deployment.reconcile()
    assert sorted(deployment.pods) == running


async def test_no_pod_is_ordered_while_one_that_was_ended_is_still_there(
    deployment: Cluster, driver: Kubernetes
) -> None:
    [stays, drained] = deployment.grow(2)
    for _ in range(2):
        await driver.end(fleet(), [drained])
    await driver.want(fleet(), 2, 0)
    assert deployment.replicas == 1, "two would say that the drained one may stay"
    deployment.reconcile()
    await driver.want(fleet(), 2, 0)
    deployment.reconcile()
    assert len(deployment.pods) == 2
    assert stays in deployment.pods
    assert drained not in deployment.pods


async def test_a_pod_that_is_not_ready_is_never_ended_in_place_of_a_drained_one(
    deployment: Cluster, driver: Kubernetes
) -> None:
    [busy, drained] = deployment.grow(2)
    deployment.run_pods(busy, ready=False)
    await driver.end(fleet(), [drained])
    with pytest.raises(DriverError, match=f"The pod {busy} is not ready, so Kubernetes would end it before {drained}"):
        await driver.end(fleet(), [drained])
    await driver.want(fleet(), 1, 0)
    assert deployment.replicas == 2
    deployment.run_pods(busy)
    await driver.end(fleet(), [drained])
    deployment.reconcile()
    assert list(deployment.pods) == [busy]


async def test_a_cluster_that_ends_an_unmarked_pod_loses_only_one(deployment: Cluster, driver: Kubernetes) -> None:
    deployment.ignores_cost = True
    [*others, drained] = deployment.grow(4)
    for _ in range(2):
        await driver.end(fleet(), [drained])
    deployment.reconcile()
    assert drained in deployment.pods
    for _ in range(2):
        with pytest.raises(DriverError, match=f"Kubernetes ended other pods and kept {drained}"):
            await driver.end(fleet(), [drained])
        deployment.reconcile()
    assert len(set(others) & set(deployment.pods)) == 2


async def test_a_change_by_another_program_in_between_is_seen(deployment: Cluster, driver: Kubernetes) -> None:
    deployment.others = 2
    await driver.want(fleet(), 2, 0)
    assert deployment.replicas == 2
    deployment.others = 100
    with pytest.raises(DriverError, match="Something else changes the scale"):
        await driver.want(fleet(), 3, 0)


async def test_a_call_whose_response_was_lost_is_repeated_without_acting_again(
    deployment: Cluster, driver: Kubernetes
) -> None:
    written = ("update", "deployments/scale")
    deployment.responses.clear()
    hasty = Kubernetes(seconds=1)
    while written not in deployment.requests:
        with pytest.raises(DriverError, match="may have acted"):
            await hasty.want(fleet(), 3, 0)
    await hasty.close()
    deployment.responses.set()
    await driver.want(fleet(), 3, 0)
    assert deployment.replicas == 3
    assert deployment.requests.count(written) == 1


async def test_the_highest_pods_of_a_stateful_set_are_ended_in_order(stateful: Cluster, driver: Kubernetes) -> None:
    await driver.want(STATEFUL, 3, 0)
    stateful.reconcile()
    stateful.run_pods()
    actual = await driver.actual(STATEFUL)
    assert actual.ending_order == (f"{NAME}-2", f"{NAME}-1", f"{NAME}-0")
    for _ in range(2):
        await driver.end(STATEFUL, [f"{NAME}-2"])
    assert stateful.replicas == 2
    stateful.reconcile()
    assert sorted(stateful.pods) == [f"{NAME}-0", f"{NAME}-1"]
    with pytest.raises(DriverError, match=f"{NAME}-1 still works. {NAME}-0 goes after it"):
        await driver.end(STATEFUL, [f"{NAME}-0"])
    assert stateful.replicas == 2
    await driver.end(STATEFUL, [f"{NAME}-0", f"{NAME}-1"])
    assert stateful.replicas == 0


async def test_a_lower_wanted_number_ends_no_pod_of_a_stateful_set(stateful: Cluster, driver: Kubernetes) -> None:
    stateful.grow(3)
    await driver.want(STATEFUL, 1, 0)
    assert stateful.replicas == 3


async def test_the_documented_role_has_exactly_the_needed_permissions(deployment: Cluster, driver: Kubernetes) -> None:
    [first, _] = deployment.grow(2)
    for _ in range(2):
        await driver.end(fleet(), [first])
    used = set(deployment.requests)
    allowed = {
        (verb, resource)
        for rule in deployment.rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if resource != "statefulsets/scale"
    }
    assert used == allowed
    deployment.rules = []
    with pytest.raises(DriverError, match=r"refused read_namespaced_deployment_scale \(403\).*rbac.yaml"):
        await driver.actual(fleet())


async def test_a_token_that_has_run_out_is_read_again(
    deployment: Cluster, driver: Kubernetes, kubeconfig: Path
) -> None:
    url = deployment.url
    write_kubeconfig(kubeconfig, url, "old")
    with pytest.raises(DriverError, match="401"):
        await driver.actual(fleet())
    write_kubeconfig(kubeconfig, url)
    assert (await driver.actual(fleet())).count == 0


async def test_a_failure_is_one_sentence(deployment: Cluster, driver: Kubernetes, kubeconfig: Path) -> None:
    with pytest.raises(DriverError, match="The StatefulSet face-swap-workers in the namespace callsheet does not"):
        await driver.actual(STATEFUL)
    with pytest.raises(DriverError, match="There is no way to the Kubernetes API"):
        await driver.actual(fleet(context="nosuch"))
    other = Kubernetes()
    write_kubeconfig(kubeconfig, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(DriverError, match="The Kubernetes API cannot be reached"):
        await other.actual(fleet())
    await other.close()


def test_an_invalid_option_is_named_with_the_reason(driver: Kubernetes) -> None:
    with pytest.raises(OptionError, match="name: Use a Kubernetes name"):
        driver.checked({"name": "Face_Swap"})
    assert driver.checked({"name": "face-swap"}) == {"kind": "deployment", "name": "face-swap"}
