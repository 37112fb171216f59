"""What is around the pods: data that is fetched, metrics, spot nodes, the network's settings."""

from __future__ import annotations

import pytest
from tests.compiler.scenarios.committed import CHARTS, mount, objects, pods_of, run, the

from trainwright.manifest.monitoring import watched

FOUNDATION = "kubeflow-a100/training/foundation/training.k8s.yaml"
RUNS = sorted(path.stem for path in (CHARTS / "runs").glob("*.yaml"))
WATCHED = [name for name in RUNS if watched(run(name).resolution)]


def test_data_is_fetched_once_and_complete_before_it_is_read() -> None:
    """Not by an init container of each pod: four of them would write the same files at the same time."""
    (fetch,) = (manifest for manifest in objects(FOUNDATION) if manifest["kind"] == "Job")
    pod = fetch["spec"]["template"]["spec"]
    assert "completions" not in fetch["spec"], "one pod"
    (container,) = pod["containers"]
    environment = {entry["name"]: entry for entry in container["env"]}
    assert environment["SOURCE"]["value"] == "store:example-datasets/imagenet"
    keys = [entry["valueFrom"]["secretKeyRef"]["name"] for entry in container["env"] if "valueFrom" in entry]
    assert keys == ["object-store", "object-store"], "credentials are references"
    body = container["command"][2]
    assert body.index("rclone sync") < body.index("compare ||") < body.index('mv "$FOLDER.draft" "$marker"')
    assert body.index('if [ -e "$marker" ]') < body.index('copy || fail "'), "what is complete is not fetched again"
    assert "ttlSecondsAfterFinished" not in fetch["spec"], "Argo CD would make it again"


def test_pods_wait_for_the_data() -> None:
    (fetch,) = (manifest for manifest in objects(FOUNDATION) if manifest["kind"] == "Job")
    folder = next(
        entry["value"] for entry in fetch["spec"]["template"]["spec"]["containers"][0]["env"] if entry["name"] == "FOLDER"
    ).removeprefix("/volume/")
    for pods in pods_of("resnet50-imagenet").values():
        for pod in pods:
            (waiting,) = pod.written["initContainers"]
            assert waiting["args"] == [f"/data/{folder}.complete"]
            assert all(entry["readOnly"] for entry in waiting["volumeMounts"])
            assert mount(pod, "/data/imagenet") == {
                "name": "imagenet", "mountPath": "/data/imagenet", "subPath": folder, "readOnly": True,
            }


def test_the_claim_of_the_data_is_as_stated() -> None:
    claims = {manifest["metadata"]["name"]: manifest["spec"] for manifest in objects(FOUNDATION)
              if manifest["kind"] == "PersistentVolumeClaim"}
    assert claims["imagenet"]["storageClassName"] == "fast-ssd"
    assert claims["imagenet"]["resources"]["requests"]["storage"] == "500Gi"


@pytest.mark.parametrize("name", WATCHED)
def test_metrics_are_scraped_by_labels_that_pods_have(name: str) -> None:
    """A ServiceMonitor needs labels on Services, which operators make without the run's."""
    plan = run(name).plan
    file = f"{plan.cluster}/{plan.namespace}/foundation/{plan.namespace}.k8s.yaml"
    (monitor,) = (manifest for manifest in objects(file) if manifest["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "30s"
    for pods in pods_of(name).values():
        for pod in pods:
            assert monitor["spec"]["selector"]["matchExpressions"][0]["key"] in pod.labels
            assert endpoint["port"] in {port.get("name") for port in pod.container["ports"]}


def test_spot_resnet_survives_its_nodes() -> None:
    result, job = run("spot-resnet"), the("spot-resnet", "Job")
    pod = job["spec"]["template"]["spec"]
    assert {"key": "example.com/spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"} in pod["tolerations"]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "h100x8-spot"}
    assert pod["priorityClassName"] == "preemptible"
    # A save fits into the grace, and the grace into the notice.
    spot, checkpoint = result.resolution.pool.spot, result.plan.checkpoint
    assert spot is not None
    assert checkpoint is not None
    assert checkpoint.save_seconds is not None
    assert checkpoint.save_seconds < result.plan.grace.save_seconds < pod["terminationGracePeriodSeconds"] <= spot.notice.seconds
    # An evicted pod costs no retry, whatever its code: the rule comes before those on codes that count.
    rules = job["spec"]["podFailurePolicy"]["rules"]
    disrupted = next(index for index, rule in enumerate(rules) if "onPodConditions" in rule)
    assert rules[disrupted] == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert all(rule["action"] == "FailJob" for rule in rules[:disrupted])


def test_roce_tuning_has_settings_that_are_read() -> None:
    for node in pods_of("roce-tuning")["node"]:
        environment = node.environment
        assert environment["NCCL_IB_HCA"].startswith("=mlx5_0,"), "exact names: a bare mlx5 matches storage adapters too"
        assert environment["NCCL_IB_GID_INDEX"] == "3"
        assert environment["NCCL_BUFFSIZE"] == "8388608"
        assert environment["NCCL_DEBUG"] == "INFO", "NCCL_DEBUG_SUBSYS has no effect without it"
        # Removed, superseded, without effect, or never read by anybody (NCCL user guide; NCCL 2.30, src/graph/connect.cc).
        assert environment.keys().isdisjoint({
            "NCCL_TREE_THRESHOLD", "NCCL_MIN_NRINGS", "NCCL_TIMEOUT", "NCCL_NTHREADS", "NCCL_ALGO", "NCCL_NET_GDR_LEVEL",
        })
        assert node.container["resources"]["limits"]["rdma/roce"] == "1"
    group = the("roce-tuning", "PodGroup")
    assert (group["apiVersion"], group["spec"]["minMember"]) == ("scheduling.x-k8s.io/v1alpha1", 8)
    for node in pods_of("roce-tuning")["node"]:  # the one label that coscheduling reads (scheduler-plugins, pkg/util/podgroup.go)
        assert node.labels["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
        assert node.spec["schedulerName"] == "scheduler-plugins-scheduler"
