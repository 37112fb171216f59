"""TrainJobs on runtimes that the platform team has installed."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.compiler.example import RUN, compiled, findings
from tests.compiler.findings.page import overlay, write_example
from tests.compiler.objects import needs_crds, problems_of, top
from tests.compiler.projects import Scratch, scratch
from tests.compiler.rehearsal.stage import play

from trainwright.cluster.runtimes import digest_of
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Severity
from trainwright.live.runs import Expected, changed_runtimes
from trainwright.live.snapshot import Snapshot
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.kubeflow_trainer.installed import ANNOTATION
from trainwright.operators.kubeflow_trainer.pods import ANCESTOR, NODE, pods
from trainwright.operators.operator import Around
from trainwright.project.record import RunRecord
from trainwright.reading.document import parse_yaml
from trainwright.rendezvous.mpi import KEYS
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_lines

Data = dict[str, Any]
MANIFESTS = os.environ.get("TRAINWRIGHT_MANIFESTS")
IMAGE = "registry.example.com/torch@sha256:" + "c" * 64
SECURED: Data = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
RUNTIME: Data = yaml.safe_load(f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {{name: torch-distributed, labels: {{trainer.kubeflow.org/framework: torch}}}}
spec:
  mlPolicy: {{numNodes: 1, torch: {{}}}}
  template:
    spec:
      failurePolicy: {{maxRestarts: 5}}
      replicatedJobs:
        - name: node
          template:
            metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
            spec:
              template:
                metadata: {{annotations: {{platform.example.com/cost: research}}}}
                spec:
                  nodeSelector: {{platform.example.com/pool: training}}
                  tolerations: [{{key: platform, operator: Exists}}]
                  automountServiceAccountToken: false
                  containers:
                    - name: log
                      image: {IMAGE}
                      securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
                    - name: node
                      image: {IMAGE}
                      env: [{{name: PLATFORM, value: "yes"}}, {{name: HOME, value: /root}}]
                      securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
                      volumeMounts: [{{name: tools, mountPath: /tools}}]
                  volumes: [{{name: tools, emptyDir: {{}}}}]
""")
POD = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template")


def within(node: Any, *keys: Any) -> Any:
    for key in keys:
        node = node[key]
    return node


def runtime(change: Data | None = None, sidecar: bool = False) -> Data:
    made = copy.deepcopy(RUNTIME)
    within(made, *POD, "spec")["securityContext"] = SECURED
    if not sidecar:
        del within(made, *POD, "spec", "containers")[0]
    changed: Data = overlay(made, change or {})
    return changed


def profile(manifest: Data, **others: Any) -> Data:
    held = {"digest": digest_of(manifest), "manifest": manifest}
    releases = {"trainer": {"version": "2.3.0"}, "jobset": {"version": "0.10.1"}}
    return {"operators": releases, "runtimes": {"torch-distributed": held}, **others}


COMMAND: Data = {"workload": {"kind": "command", "command": ["x"]}, "batch": None, "learning_rate": None}
ON_IT = {"target": "train-job", "runtime": "torch-distributed"}


def on_it(run: Data | None = None, manifest: Data | None = None, **others: Any) -> CompiledRun:
    return compiled({**ON_IT, **(run or {})}, profile(manifest or runtime(), **others))


def test_the_train_job_refers_to_it_and_brings_none() -> None:
    found = on_it()
    assert [one["kind"] for one in found.manifests] == ["ConfigMap", "TrainJob"]
    spec = top(found)["spec"]
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed"}
    assert spec["runtimeRef"] == reference
    (patch,) = spec["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]
    assert set(pod["spec"]) <= {"terminationGracePeriodSeconds", "nodeSelector", "tolerations", "containers", "volumes"}
    assert [set(one) for one in pod["spec"]["containers"]] == [{"name", "volumeMounts"}]
    text = str(spec)
    assert "platform.example.com" not in text, "what the runtime has is not said again"
    assert "tools" not in text
    assert pod["metadata"]["annotations"] == {ANNOTATION: f"torch-distributed@{digest_of(runtime())}"}


@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.0"])
def test_rules_see_the_pods_that_the_controller_makes(version: str) -> None:
    """What the compile looks at is what the operator's folder, which recordings hold, makes of TrainJob and runtime."""
    manifest = runtime({"spec": {"template": {"spec": {}}}})
    found = compiled(ON_IT, overlay(profile(manifest), {"operators": {"trainer": {"version": version}}}))
    looked_at = split(TARGETS["train-job"].lower(found.resolution)[0])[0]
    seen, made = within(looked_at, *POD), pods(top(found), Around(objects=[manifest])).objects
    job_set = next(one for one in made if one["kind"] == "JobSet")
    real = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert {key: value for key, value in real["spec"].items() if key != "containers"} == {
        key: value for key, value in seen["spec"].items() if key != "containers"
    }
    ours, theirs = seen["spec"]["containers"][0], next(one for one in real["spec"]["containers"] if one["name"] == "node")
    assert {key: ours[key] for key in ours if key != "env"} == {key: theirs[key] for key in theirs if key not in ("env", "ports")}
    variables = {one["name"]: one.get("value") for one in theirs["env"]}
    assert {one["name"]: one.get("value") for one in ours["env"]}.items() <= variables.items()
    assert (variables["PLATFORM"], variables["HOME"]) == ("yes", "/tmp")
    assert seen["metadata"]["labels"].items() <= real["metadata"]["labels"].items()


@pytest.mark.parametrize("work", [{"kind": "script", "command": ["x"]}, {"kind": "command", "command": ["x"]}])
def test_its_pods_bring_the_supervisor_in_a_volume_of_an_image(work: Data) -> None:
    """A TrainJob adds volumes and mounts to them, and no init container."""
    run = {"workload": work, "batch": None, "learning_rate": None, "security": {"user": 1000}, "supervisor": "brought"}
    offered: Data = {"image": IMAGE, "in_images": []}
    with pytest.raises(CompileError, match="no container that copies it"):
        on_it(run, kubernetes="1.35", supervisor=offered)
    found = on_it(run, kubernetes="1.36", supervisor=offered)
    pod = within(top(found)["spec"], "runtimePatches", 0, "trainingRuntimeSpec", *POD[1:], "spec")
    assert {"name": "supervisor", "image": {"reference": IMAGE}} in pod["volumes"]
    mount = {"name": "supervisor", "mountPath": "/trainwright-supervisor", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
    assert top(found)["spec"]["trainer"]["command"][0] == "/trainwright-supervisor/lib/ld.so"
    (job_set,) = [one for one in pods(top(found), Around(objects=[runtime()])).objects if one["kind"] == "JobSet"]
    real = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert {"tools", "supervisor"} <= {one["name"] for one in real["volumes"]}
    mounted = on_it(run, kubernetes="1.35", supervisor=offered | {"mounted": True})
    assert mounted.plan.supervisor is not None


def test_the_plan_says_whose_rules_hold() -> None:
    found = on_it()
    lines = [line.strip() for line in plan_lines(found)]
    assert "restarts      as runtime torch-distributed has it" in lines
    assert "guarantees    none: the runtime's rules are not this run's" in lines
    assert plan_facts(found)["runtime"] == f"torch-distributed@{digest_of(runtime())}"
    assert "restarts" not in plan_facts(found)


def test_another_runtime_under_the_name_is_another_run() -> None:
    other = runtime({"spec": {"mlPolicy": {"numNodes": 2}}})
    labelled = runtime({"metadata": {"labels": {"a": "b"}}})
    assert on_it().plan.name == on_it(manifest=labelled).plan.name != on_it(manifest=other).plan.name


@pytest.mark.parametrize(("run", "place", "field"), [
    ({"priority": "high"}, "/priority", "priorityClassName"),
    ({"security": {"user": 1234}, **COMMAND}, "/security/user", "securityContext"),
    ({"restarts": 7}, "/restarts", "restarts"),
    ({"host_network": True}, "/host_network", "hostNetwork"),
    ({"containers": [{"kind": "init", "name": "x", "image": IMAGE, "cpu": 1, "memory": "1Gi"}]}, "/containers/0",
     "initContainers"),
    ({"prepare": {"/checkpoints/data": {"source": "s3://bucket/data", "image": IMAGE}}}, "/prepare", "initContainers"),
    ({"overrides": {"pod": {"node": {"schedulerName": "mine"}}}}, "/overrides/pod/node/schedulerName", "schedulerName"),
])  # fmt: skip
def test_what_a_train_job_may_not_say_is_refused_on_its_line(run: Data, place: str, field: str) -> None:
    said = [one for one in findings({**ON_IT, **run}, profile(runtime(), priorities=["high"])) if one.code == "TW335"]
    assert said
    assert {one.where.pointer for one in said} == {place}
    assert any(f"decides {field} of the pods" in one.message for one in said)


def test_what_the_runtime_says_too_is_no_finding() -> None:
    said = findings({**ON_IT, **COMMAND, "security": {"user": 1000}}, profile(runtime()))
    assert not [one for one in said if one.code == "TW335"]


def test_an_override_of_what_it_may_say_is_in_the_patch() -> None:
    patch = {"nodeSelector": {"example.com/disk": "nvme"}, "containers": [{"name": "node", "env": [{"name": "A", "value": "b"}]}]}
    spec = top(on_it({"overrides": {"pod": {"node": patch}}}))["spec"]
    assert {"name": "A", "value": "b"} in spec["trainer"]["env"]
    assert "example.com/disk" in str(spec["runtimePatches"])


def test_a_gang_needs_a_runtime_that_makes_it() -> None:
    gang = {"scheduling": {"gang": "coscheduling", "version": "0.33"}}
    grouped = runtime({"spec": {"podGroupPolicy": {"coscheduling": {}}}})
    assert "TW335" in [one.code for one in findings(ON_IT, {**profile(runtime()), **gang})]
    assert "TW335" not in [one.code for one in findings(ON_IT, {**profile(grouped), **gang})]


def test_weak_pods_of_a_runtime_are_found() -> None:
    """Without what a restricted namespace demands, as the release's own runtime has none."""
    weak = runtime()
    del within(weak, *POD, "spec")["securityContext"]
    assert "TW604" in [one.code for one in findings(ON_IT, profile(weak))]


@pytest.mark.parametrize(("run", "manifest", "message"), [
    ({"runtime": "torch"}, runtime(), "has no runtime torch"),
    ({"target": "job-set"}, runtime(), "it is made from no runtime"),
    ({"topology": {"kind": "jax", "nodes": 2, "gpus_per_node": 8}, **COMMAND}, runtime(),
     "does not make this rendezvous: its policy is torch"),
    ({"roles": {"evaluator": {"pods": 1, "command": ["x"]}}}, runtime(), "further Jobs are those of runtime"),
    ({}, runtime({"spec": {"template": {"spec": {"replicatedJobs": [
        {**within(RUNTIME, "spec", "template", "spec", "replicatedJobs", 0), "name": "trainer"}]}}}}),
     "has the Jobs trainer"),
])  # fmt: skip
def test_a_run_that_does_not_fit_its_runtime_is_refused(run: Data, manifest: Data, message: str) -> None:
    with pytest.raises(CompileError, match="TW401") as error:
        on_it(run, manifest)
    assert message in str(error.value)


def test_an_older_trainer_cannot_say_where_pods_go() -> None:
    with pytest.raises(CompileError, match=r"upgrade Trainer to 2\.1"):
        compiled(ON_IT, overlay(profile(runtime()), {"operators": {"trainer": {"version": "2.0.0"}}}))


def test_it_is_rehearsed_with_its_runtime_beside_it(tmp_path: Path) -> None:
    program = "import os; print(os.environ['PET_NODE_RANK'], os.environ['PET_NNODES'], os.environ['PLATFORM'])"
    work = {"workload": {"kind": "command", "command": ["python", "-c", program]}, "batch": None, "learning_rate": None}
    outcome, recorder = play([*on_it({**work, "checkpoints": {"by": "own"}}).manifests, runtime()], tmp_path)
    assert outcome.status == "Complete"
    assert {line for _, line in recorder.lines} >= {"0 2 yes", "1 2 yes"}


# Initializers, and what else a runtime has beside the node.


def with_jobs(*others: Data, change: Data | None = None) -> Data:
    """The runtime with Jobs before its node, which waits until they are complete."""
    made = runtime(change)
    jobs = within(made, "spec", "template", "spec", "replicatedJobs")
    jobs[0]["dependsOn"] = [{"name": one["name"], "status": "Complete"} for one in others]
    within(jobs[0], "template", "spec", "template", "spec", "containers")[0]["volumeMounts"].append(
        {"name": "initializer", "mountPath": "/workspace"}
    )
    jobs[:0] = others
    claim = {"metadata": {"name": "initializer"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    within(made, "spec", "template", "spec")["volumeClaimPolicies"] = [{"templates": [claim]}]
    return made


def job(name: str, *command: str, image: str = IMAGE, env: list[Data] | None = None) -> Data:
    container = {
        "name": name, "image": image, "env": env or [], "volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    } | ({"command": [*command]} if command else {})  # fmt: skip
    spec = {"containers": [container], "securityContext": SECURED, "automountServiceAccountToken": False}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": name} if name.endswith("-initializer") else {}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": spec}}}}


URI = {"name": "STORAGE_URI", "value": "hf://tatsu-lab/alpaca"}
DATASET = {"storage_uri": "hf://example/texts", "secret": "hugging-face", "env": {"IGNORE_PATTERNS": "*.md"}}


@needs_crds
def test_a_run_tells_the_initializers_of_its_runtime_what_to_fetch() -> None:
    manifest = with_jobs(job("dataset-initializer", env=[URI]), job("model-initializer"))
    found = on_it({"initializer": {"dataset": DATASET}}, manifest)
    assert top(found)["spec"]["initializer"] == {"dataset": {
        "storageUri": "hf://example/texts", "secretRef": {"name": "hugging-face"},
        "env": [{"name": "IGNORE_PATTERNS", "value": "*.md"}],
    }}  # fmt: skip
    assert problems_of(found) == []
    assert "dataset-initializer" not in str(top(found)["spec"]["runtimePatches"]), "what it is told is no patch"
    rows = " ".join(plan_lines(found))
    assert "initializers  dataset hf://example/texts, by Job dataset-initializer of the runtime" in rows
    assert found.plan.name != on_it(manifest=manifest).plan.name


def test_rules_see_the_initializers_that_the_controller_makes() -> None:
    manifest = with_jobs(job("dataset-initializer", env=[URI]), job("model-initializer"))
    found = on_it({"initializer": {"dataset": DATASET}}, manifest)
    seen = {one["name"]: one for one in within(split(TARGETS["train-job"].lower(found.resolution)[0])[0], *POD[:4])}
    made = next(one for one in pods(top(found), Around(objects=[manifest])).objects if one["kind"] == "JobSet")
    real = {one["name"]: one for one in made["spec"]["replicatedJobs"]}
    assert seen.keys() == real.keys()
    for name in ("dataset-initializer", "model-initializer"):
        ours, theirs = (one[name]["template"]["spec"]["template"]["spec"]["containers"][0] for one in (seen, real))
        assert ours == theirs
    told = real["dataset-initializer"]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert told["env"] == [{"name": "STORAGE_URI", "value": "hf://example/texts"}, {"name": "IGNORE_PATTERNS", "value": "*.md"}]
    assert told["envFrom"] == [{"secretRef": {"name": "hugging-face"}}]


@pytest.mark.parametrize(("manifest", "message"), [
    (runtime(), "runtime torch-distributed has no Job dataset-initializer"),
    (with_jobs({**job("dataset-initializer"), "template": job("fetch")["template"]}), "has no container dataset-initializer"),
    (with_jobs(overlay(job("dataset-initializer"), {"template": {"metadata": {"labels": None}}})), "no label trainer.kubeflow"),
    (with_jobs({**job("dataset-initializer"), "template": overlay(job("dataset-initializer")["template"], {
        "spec": {"template": {"spec": {"containers": [{"name": "dataset-initializer", "image": IMAGE}]}}}})}),
     "mounts no volume called initializer"),
])  # fmt: skip
def test_an_initializer_that_the_runtime_does_not_have_is_refused_on_its_line(manifest: Data, message: str) -> None:
    said = [one for one in findings({**ON_IT, "initializer": {"dataset": DATASET}}, profile(manifest)) if one.code == "TW335"]
    assert [(one.where.pointer, message in one.message) for one in said] == [("/initializer/dataset", True)]


def test_an_initializer_needs_a_runtime_that_is_installed() -> None:
    with pytest.raises(ValidationError, match="a runtime that the run brings has no initializers; write prepare"):
        compiled({"target": "train-job", "initializer": {"dataset": DATASET}})


def test_pods_of_a_runtimes_own_jobs_are_held_against_the_rules() -> None:
    """They are not the run's, and count as none of its roles; what is wrong with them is said at the runtime."""
    assert on_it(manifest=with_jobs(job("cache"))).plan.world.nodes == 2
    (said,) = findings(ON_IT, profile(with_jobs(job("cache", image="registry.example.com/cache:latest"))))
    assert (said.code, said.where.pointer.rpartition("/replicatedJobs")[2]) == (
        "TW305", "/0/template/spec/template/spec/containers/0/image",
    )  # fmt: skip


def test_a_group_that_waits_for_pods_of_a_later_job_never_starts() -> None:
    grouped = with_jobs(job("dataset-initializer"), change={"spec": {"podGroupPolicy": {"coscheduling": {}}}})
    gang = {"scheduling": {"gang": "coscheduling", "version": "0.33"}}
    assert [one.where.pointer for one in findings(ON_IT, {**profile(grouped), **gang}) if one.code == "TW441"] == ["/runtime"]


def test_a_rehearsal_takes_the_runtime_of_the_profile_and_its_initializers_end_first(tmp_path: Path) -> None:
    """By the JobSet's own claim, and with what the run tells the initializer."""
    fetch = "import os, pathlib; pathlib.Path('/workspace/got').write_text(os.environ['STORAGE_URI'] + ' ' + os.environ['MORE'])"
    read = "import pathlib; assert pathlib.Path('/workspace/got').read_text() == 'hf://example/texts told'"
    manifest = with_jobs(job("dataset-initializer", "python", "-c", fetch))
    run = {
        "run": "fetched", "target": "train-job", "runtime": "torch-distributed", "gang": False, "checkpoints": {"by": "own"},
        "workload": {"kind": "command", "command": ["python", "-c", read]}, "batch": None, "learning_rate": None,
        "initializer": {"dataset": {"storage_uri": "hf://example/texts", "env": {"MORE": "told"}}},
    }  # fmt: skip
    write_example((), tmp_path / "project")
    charts = tmp_path / "project" / "charts"
    (charts / "runs" / "fetched.yaml").write_text(json.dumps(overlay(RUN, run)), encoding="utf-8")
    lab = parse_yaml((charts / "clusters" / "lab.yaml").read_text(encoding="utf-8"), "lab").data
    (charts / "clusters" / "lab.yaml").write_text(json.dumps(overlay(lab, profile(manifest))), encoding="utf-8")
    ended = Scratch(tmp_path / "project").run("rehearse", "fetched", "--target", "train-job", "--timeout", "100")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Complete: AllJobsCompleted" in ended.stdout
    first_end = ended.stdout.index("ended: exit code 0")
    assert ended.stdout.index("-dataset-initializer-0-0-") < first_end < ended.stdout.index("-node-0-")


# Under mpirun.


def of_mpi(as_node: bool = True, change: Data | None = None) -> Data:
    """As deepspeed-distributed of Trainer's release, in a namespace that asks for more."""
    worker = job(NODE, "/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config")
    worker["template"]["spec"]["template"]["spec"]["containers"][0].update(
        readinessProbe={"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5}, resources={"limits": {"nvidia.com/gpu": 8}}
    )
    launcher = {**job(NODE), "name": "launcher", "dependsOn": [{"name": NODE, "status": "Ready"}]}
    for one in (worker, launcher):
        del one["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    launcher["template"] = overlay(launcher["template"], {"metadata": {"labels": {ANCESTOR: "trainer"}}})
    policy = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "sshAuthMountPath": KEYS, "runLauncherAsNode": as_node}
    template = {"spec": {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                         "replicatedJobs": [worker, launcher]}}  # fmt: skip
    spec = {"mlPolicy": {"numNodes": 1, "mpi": policy}, "template": template}
    made: Data = overlay({**RUNTIME, "spec": spec}, change or {})
    return made


WAITING = "until getent hosts launcher; do sleep 1; done; exec mpirun --hostfile /etc/mpi/hostfile -x A python /app/train.py"
UNDER_MPI: Data = {
    **ON_IT, **COMMAND, "image": IMAGE, "env": {"A": "b"}, "checkpoints": {"by": "own"},
    "topology": {"kind": "mpi", "nodes": 3, "gpus_per_node": 8, "launcher_is_node": True},
    "workload": {"kind": "command", "command": ["/bin/sh", "-c", WAITING]},
}  # fmt: skip
BESIDE_NODES = overlay(UNDER_MPI, {"topology": {"launcher_is_node": False}})


@needs_crds
@pytest.mark.parametrize(("run", "as_node"), [(UNDER_MPI, True), (BESIDE_NODES, False)])
def test_a_launcher_and_its_workers_are_those_of_a_runtime(run: Data, as_node: bool) -> None:
    manifest = of_mpi(as_node)
    found = compiled(run, profile(manifest))
    assert [one["kind"] for one in found.manifests] == ["TrainJob"]
    spec = top(found)["spec"]
    assert (spec["trainer"]["numNodes"], spec["trainer"]["numProcPerNode"], spec["trainer"]["image"]) == (3, 8, IMAGE)
    assert spec["trainer"]["command"] == ["/bin/sh", "-c", WAITING]
    patched = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [one["name"] for one in patched] == [NODE, "launcher"]
    assert all("sshd" not in str(one) for one in patched), "the workers' program is the runtime's"
    assert problems_of(found) == []
    looked_at = split(TARGETS["train-job"].lower(found.resolution)[0])[0]
    made = next(one for one in pods(top(found), Around(objects=[manifest])).objects if one["kind"] == "JobSet")
    for place, count in enumerate((3 - as_node, 1)):
        seen = within(looked_at, *POD[:4], place, *POD[5:])["spec"]["containers"][0]
        real = made["spec"]["replicatedJobs"][place]["template"]["spec"]
        theirs = real["template"]["spec"]["containers"][0]
        assert real["parallelism"] == count
        for key in ("image", "command", "resources"):
            assert seen.get(key) == theirs.get(key), (place, key)
        names = {one["name"]: one.get("value") for one in theirs.get("env", [])}
        assert {one["name"]: one.get("value") for one in seen.get("env", [])}.items() <= names.items()
        assert {one["mountPath"] for one in theirs["volumeMounts"]} - {one["mountPath"] for one in seen["volumeMounts"]} <= {
            KEYS, "/etc/mpi",
        }  # fmt: skip


@pytest.mark.parametrize(("run", "manifest", "place", "message"), [
    ({"image": RUN["image"]}, of_mpi(), "/image", f"write image: {IMAGE}"),
    ({"topology": {"launcher_is_node": False}}, of_mpi(), "/topology", "write topology.launcher_is_node: true"),
    ({}, of_mpi(as_node=False), "/topology", "write topology.launcher_is_node: false"),
    ({"topology": {"nodes": 1}}, of_mpi(), "/topology", "one worker at least beside its launcher"),
    ({"topology": {"kind": "horovod", "nodes": 3, "gpus_per_node": 8, "launcher_is_node": True},
      "workload": {"kind": "script", "command": ["python", "/app/train.py"]}}, of_mpi(), "/workload/kind", "write kind: command"),
    ({"topology": {"launcher_is_node": False, "gpus_per_node": 4}}, of_mpi(as_node=False), "/topology/gpus_per_node",
     "decides resources of the pods"),
    ({}, runtime(), "/topology", "does not make this rendezvous: its policy is torch"),
])  # fmt: skip
def test_what_a_runtime_of_mpirun_cannot_be_told_is_refused(run: Data, manifest: Data, place: str, message: str) -> None:
    said = [one for one in findings(overlay(UNDER_MPI, run), profile(manifest)) if one.severity is Severity.ERROR]
    assert {(one.where.pointer, message in f"{one.message}; {one.fix}") for one in said} == {(place, True)}, said


# The files.


@pytest.fixture
def project(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


def served(manifest: Data) -> Data:
    """As `kubectl get -o yaml` prints it."""
    noted = {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "managedFields": [{"manager": "x"}], "uid": "x"}
    last = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    return {**manifest, "metadata": {**manifest["metadata"], **noted, **last}, "status": {}}


def test_the_command_writes_files_and_the_lines_that_name_them(project: Scratch) -> None:
    odd = runtime({"metadata": {"name": "odd"}})
    within(odd, *POD, "spec", "containers")[0]["env"] = [{"name": "RATE", "value": "1e3"}, {"name": "ON", "value": "on"}]
    got = json.dumps({"kind": "List", "items": [served(runtime()), served(odd)]})
    (project.root / "got.yaml").write_text(got, encoding="utf-8")
    ended = project.run("runtimes", "laptop", "got.yaml")
    assert ended.returncode == 0, ended.stderr
    lines = yaml.safe_load(ended.stdout)["runtimes"]
    assert lines["torch-distributed"] == {"file": "runtimes/laptop/torch-distributed.yaml", "digest": digest_of(runtime())}
    path = project.root / "charts/clusters/laptop.yaml"
    path.write_text(path.read_text(encoding="utf-8") + ended.stdout, encoding="utf-8")
    assert "TW336" not in project.run("check").stderr
    written = project.root / "charts/clusters" / lines["odd"]["file"]
    assert "creationTimestamp" not in written.read_text(encoding="utf-8")
    written.write_text(written.read_text(encoding="utf-8").replace("1e3", "2e3"), encoding="utf-8")
    ended = project.run("check")
    assert ended.returncode == 1
    assert "TW336" in ended.stderr
    written.unlink()
    assert "TW101" in project.run("check").stderr


def test_what_the_api_server_fills_in_is_no_other_runtime() -> None:
    filled = runtime()
    filled["spec"]["template"]["spec"]["failurePolicy"]["restartStrategy"] = "Recreate"
    within(filled, "spec", "template", "spec", "replicatedJobs", 0).update(replicas=1, groupName="default")
    assert digest_of(filled) == digest_of(runtime()) != digest_of(runtime({"spec": {"mlPolicy": {"numNodes": 3}}}))


def test_status_says_when_the_cluster_has_another_one() -> None:
    record = RunRecord(identity="a1b2c3d4", file="sha256:x", manifests="sha256:x", dist="sha256:x", facts=plan_facts(on_it()))
    runs, other = [Expected("example", record)], runtime({"spec": {"mlPolicy": {"numNodes": 3}}})
    elsewhere = {**other, "kind": "TrainingRuntime", "metadata": {"name": "torch-distributed", "namespace": "elsewhere"}}
    assert list(changed_runtimes(Snapshot([served(runtime())]), runs)) == []
    assert list(changed_runtimes(Snapshot([elsewhere]), runs)) == []
    (said,) = changed_runtimes(Snapshot([served(other), elsewhere]), runs)
    assert said.startswith("runtime torch-distributed of the cluster is another one than example had in mind")


def test_what_holds_no_runtime_is_told(project: Scratch) -> None:
    dist = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
    assert "there is no ClusterTrainingRuntime" in project.run("runtimes", "laptop", dist).stderr
    assert "laptop" in project.run("runtimes", "laptpo", "x.yaml").stderr


@pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")
def test_the_runtime_of_the_release_can_be_named() -> None:
    """Where the namespace allows what it leaves open, and its image has a digest."""
    text = (Path(str(MANIFESTS)) / "runtime-torch-distributed.yaml").read_text(encoding="utf-8")
    found = compiled(ON_IT, {**profile(yaml.safe_load(text)), "namespaces": {"training": {"pod_security": "baseline"}}})
    assert top(found)["spec"]["runtimeRef"]["name"] == "torch-distributed"
