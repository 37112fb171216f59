"""What an import makes of manifests: runs that compile, that read well, and that come back as they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.importing.samples import PYTORCH, PYTORCH_AS_A_RUN, SAMPLES
from tests.compiler.importing.test_accounts import told
from tests.compiler.public.cases import NAMES, case

from trainwright.cluster import Cluster
from trainwright.importing.accounting.account import Verdict
from trainwright.importing.accounting.side import Fate
from trainwright.importing.bring import Brought, Imported, bring
from trainwright.importing.read import Source, read
from trainwright.reading import validate
from trainwright.reading.document import parse_yaml
from trainwright.run import Run
from trainwright.targets import TARGET_MODULES
from trainwright.validate import validate_files

MANIFESTS, CRDS = os.environ.get("TRAINWRIGHT_MANIFESTS"), os.environ.get("TRAINWRIGHT_CRDS")


def brought(text: str, existing: Cluster | None = None) -> Brought:
    return bring(read([Source("given.yaml", text)]), "imported", existing)


def only(text: str, existing: Cluster | None = None) -> Imported:
    found = brought(text, existing)
    assert not found.failed, [finding for one in found.failed for finding in one.findings]
    (run,) = found.runs
    return run


def emitted(run: Imported) -> str:
    return "---\n".join(json.dumps(one, indent=1) + "\n" for one in run.compiled.manifests)


def public(name: str) -> str:
    text = (Path(str(MANIFESTS)) / f"{name}.yaml").read_text(encoding="utf-8")
    for blank, value in (case(name).get("values") or {}).items():
        text = text.replace(blank, value)
    return text


def assert_whole(text: str, folder: Path) -> Imported:
    """That the run is what its own file says, that its objects are accepted, and that these give it back."""
    run = only(text)
    assert validate(Run, parse_yaml(run.text, "run.yaml")) == run.compiled.run
    refers = "runtime" in run.run  # to an object that is not its own
    again = only(emitted(run), run.compiled.cluster if refers else None)
    assert again.run == run.run
    (folder / "objects.yaml").write_text(emitted(run), encoding="utf-8")
    report = validate_files([folder / "objects.yaml"], Path(CRDS) if CRDS else None, lambda _: "1.34", lambda _: True)
    assert not report.errors, report.findings
    return run


@pytest.mark.parametrize("target", SAMPLES)
def test_each_kind_becomes_a_run(target: str, tmp_path: Path) -> None:
    assert assert_whole(SAMPLES[target], tmp_path).run["target"] == target


def test_there_is_a_sample_for_each_target() -> None:
    assert SAMPLES.keys() == TARGET_MODULES.keys()


@pytest.mark.skipif(not MANIFESTS, reason="TRAINWRIGHT_MANIFESTS names no folder of public manifests")
@pytest.mark.parametrize("name", NAMES)
def test_public_manifests_become_runs(name: str, tmp_path: Path) -> None:
    run = assert_whole(public(name), tmp_path)
    assert run.run["target"] == case(name)["run"]["target"]
    assert "overrides" not in run.run, "words say all"


def test_a_run_reads_as_a_person_would_write_it() -> None:
    assert only(PYTORCH).text == PYTORCH_AS_A_RUN


def test_a_profile_is_drafted_and_says_what_is_a_guess() -> None:
    found = brought(PYTORCH)
    assert found.profile is not None
    (pool,) = found.profile["node_pools"].values()
    assert pool["labels"] == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    assert pool["taints"] == [{"key": "nvidia.com/gpu"}]
    assert (pool["gpu"]["model"], pool["gpu"]["per_node"], pool["fabric"]["kind"]) == ("H100", 8, "efa")
    assert found.profile["namespaces"]["nlp"]["claims"] == {"corpus": {"managed": False}}
    assert found.profile["namespaces"]["nlp"]["queues"] == {"research": {"managed": False}}
    assert "# a guess, as is the memory: CPUs of one node\n    cpus: 192" in found.profile_text
    validate(Cluster, parse_yaml(found.profile_text, "imported.yaml"))


def test_a_profile_that_is_there_says_what_it_lacks() -> None:
    found = brought(PYTORCH)
    assert found.profile is not None
    own: dict[str, Any] = json.loads(json.dumps(found.profile))
    del own["operators"], own["namespaces"]["nlp"]["claims"]
    own["node_pools"]["h100"]["labels"] = {"node.kubernetes.io/instance-type": "other"}
    there = brought(PYTORCH, validate(Cluster, parse_yaml(json.dumps(own), "profile.yaml")))
    assert there.profile is None
    assert list(there.lacks) == [
        "operator training-operator, for PyTorchJob", "claim corpus in namespace nlp",
        "a node pool with node.kubernetes.io/instance-type: p5.48xlarge and 8 nvidia.com/gpu on a node",
    ]  # fmt: skip


TOKEN = "hf_abcdefghijklmnopqrstuvwxyz012345"  # noqa: S105 - the form of one


def test_a_secret_in_plain_text_is_never_copied() -> None:
    text = PYTORCH.replace("/scripts/train.py]", f"/scripts/train.py, --token, {TOKEN}]")
    text = text.replace("# NCCL is quiet by default.", f"# as in {TOKEN}")
    text = text.replace("name: small-model\n", f"name: small-model\n  annotations: {{a: {TOKEN}}}\n", 1)
    found = brought(text.replace("import torch\n", f"import torch  # {TOKEN}\n"))
    written = found.profile_text + "".join(one.text for one in found.runs)
    assert TOKEN not in written
    (run,) = found.runs
    assert run.run["env"]["HF_TOKEN"] == {"secret": "small-model-secrets", "key": "HF_TOKEN"}
    assert run.run["workload"]["command"][-1] == "$(SECRET_1)"
    assert {name for name, _ in run.hidden} >= {"HF_TOKEN", "SECRET_1"}
    assert all(where.line for name, where in run.hidden if name == "HF_TOKEN")


def test_what_the_server_writes_is_left_out() -> None:
    (stored,) = (one for one in yaml.safe_load_all(SAMPLES["indexed-job"]))
    stored["metadata"] |= {
        "name": "sweep-x7k2p", "uid": "0a", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }  # fmt: skip
    pod = stored["spec"]["template"]["spec"]
    pod |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {}}
    pod["terminationGracePeriodSeconds"] = 30
    pod["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    stored["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "0a"}}
    stored["spec"]["template"]["metadata"] = {"labels": {"batch.kubernetes.io/job-name": "sweep-x7k2p", "controller-uid": "0a"}}
    stored["status"] = {"active": 4}
    listed = {"apiVersion": "v1", "kind": "List", "items": [stored]}
    run = only(yaml.safe_dump(listed))
    assert {**run.run, "run": "sweep"} == {**only(SAMPLES["indexed-job"]).run, "run": "sweep"}


def test_what_controllers_make_is_no_run_of_its_own() -> None:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "a", "uid": "0a", "controller": True}
    (job,) = yaml.safe_load_all(SAMPLES["indexed-job"])
    job["metadata"] = {"name": "a-node-0", "ownerReferences": [owner]}
    found = brought(f"{SAMPLES['job-set']}\n---\n{json.dumps(job)}")
    assert [one.name for one in found.runs] == ["with-evaluator"]
    assert [one.message for one in found.notes] == ["Job a-node-0 is made by a JobSet, which says all of it"]


def test_a_wrapper_is_opened() -> None:
    inner = list(yaml.safe_load_all(SAMPLES["pytorch-job"]))
    del inner[0]["metadata"]["labels"]
    wrapped = {
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "wrapped", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
        "spec": {"components": [{"template": one} for one in inner]},
    }  # fmt: skip
    run = only(json.dumps(wrapped)).run
    assert (run["run"], run["queue"], list(run["files"])) == ("small-model", "research", ["/scripts/train.py"])


def test_a_leader_worker_set_is_refused_with_the_reason() -> None:
    text = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: serve}\nspec: {}\n"
    found = brought(text)
    assert not found.runs
    assert "restart for ever" in found.notes[0].message


@pytest.mark.parametrize(("text", "said"), [
    ("a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)), "more than"),
    ("kind: Job\nkind: Job\n", "is already on line 1"),
    ("kind: Job\nspec:\n\tname: x\n", "a tab stands here"),
    (f"kind: Job\nspec: {'[' * 20_000}", "nested more than"),
    ("kind: Job\nmetadata:\n  name: {{ .Release.Name }}\n", "a template that nobody has rendered"),
    ('apiVersion: batch/v1\nkind: Job\nmetadata: {name: "{{ .Release.Name }}"}\n', "with the blank {{ of a template"),
    ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completions: $NODES}\n", "the blank $NODES of a template"),
])  # fmt: skip
def test_what_cannot_be_read_is_said_at_its_line(text: str, said: str) -> None:
    from trainwright.findings import CompileError

    with pytest.raises(CompileError) as caught:
        read([Source("given.yaml", text)])
    (finding, *_) = caught.value.findings
    assert said in finding.message
    assert finding.where.line


ODD = (5, [1], {"a": 1}, None, "")


@pytest.mark.parametrize("target", [
    pytest.param(target, marks=pytest.mark.nightly if target == "pytorch-job" else ()) for target in SAMPLES
])
def test_no_shape_is_a_traceback(target: str) -> None:
    """Values of an object, each in its turn, are of other types."""
    objects = list(yaml.safe_load_all(SAMPLES[target]))
    for number, way in enumerate(list(ways(objects[0]))[::4]):
        changed = json.loads(json.dumps(objects))
        owner: Any = changed[0]
        for key in way[:-1]:
            owner = owner[key]
        owner[way[-1]] = ODD[number % len(ODD)]
        found = brought("---\n".join(json.dumps(one) + "\n" for one in changed))
        assert all(finding.message for one in found.failed for finding in one.findings)


def ways(node: Any, way: tuple[Any, ...] = ()) -> Any:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*way, key)
        yield from ways(value, (*way, key))


SLICES = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: slices}
spec:
  replicatedJobs:
  - name: reads
    replicas: 3
    template: {spec: {template: {spec: {containers: [{name: r, image: 'r:1', command: [reads]}]}}}}
  - name: slice
    replicas: JOBS
    template:
      spec:
        completions: 4
        parallelism: 4
        template:
          spec:
            containers: [{name: t, image: 'jax:1', command: [python, t.py], resources: {limits: {nvidia.com/gpu: 8}}}]
"""


def test_jobs_that_become_one_are_a_warning() -> None:
    """Of the pods that train alone: those of another role have no numbers that a program counts on."""
    found = brought(SLICES.replace("JOBS", "2"))
    (warning,) = found.notes
    assert (warning.code, warning.where.line) == ("TW717", 11)
    assert warning.message == "the 2 Jobs of this JobSet become one, whose pods are numbered from 0 to 7"
    assert not brought(SLICES.replace("JOBS", "1")).notes


ON_A_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: on-it, namespace: lab}
spec:
  runtimeRef: {name: ours}
  trainer: {numNodes: 2, command: [torchrun, /app/train.py], env: [{name: LEVEL, value: info}]}
  runtimePatches:
  - manager: example.com/team
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: PATCH}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: ours, resourceVersion: "7"}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: 4}}
  template:
    spec:
      failurePolicy: {maxRestarts: 7}
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                priorityClassName: high
                nodeSelector: {pool: training}
                containers:
                - name: node
                  image: torch:2.9
                  workingDir: /app
                  env: [{name: PLATFORM, value: "yes"}]
                  resources: {limits: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}
"""


def test_a_train_job_refers_to_its_runtime_and_says_nothing_of_it() -> None:
    found = brought(ON_A_RUNTIME.replace("PATCH", "{serviceAccountName: trains}"))
    (one,), (held,) = found.runs, found.runtimes.values()
    said = one.run
    assert (said["runtime"], said["service_account"], said["env"]) == ("ours", "trains", {"LEVEL": "info"})
    assert said["topology"] == {"kind": "ddp", "nodes": 2, "gpus_per_node": 4}
    assert not said.keys() & {"restarts", "priority", "gang", "node_affinity", "files"}
    assert said["resources"] == {"cpu": "none", "memory": "none"}
    assert [each["kind"] for each in one.compiled.manifests] == ["TrainJob"]
    assert held["metadata"] == {"name": "ours"}
    assert "    file: runtimes/imported/ours.yaml\n    digest: sha256:" in found.profile_text
    again = only(emitted(one), one.compiled.cluster)
    assert again.run == said


def test_a_train_job_of_an_earlier_release_gets_that_release() -> None:
    """A later one drops the field by which it says what its pods have of their own."""
    patch = "podTemplateOverrides: [{targetJobs: [{name: node}], spec: {serviceAccountName: trains}}]"
    job = f"{{runtimeRef: {{name: torch-distributed}}, trainer: {{numNodes: 2, command: [torchrun, t.py]}}, {patch}}}"
    text = f"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: early}}\nspec: {job}\n"
    found = brought(text)
    assert found.profile is not None
    assert found.profile["operators"]["trainer"]["version"] == "2.1.0"
    assert found.runs[0].run["service_account"] == "trains"
    assert verdicts(text)["serviceAccountName"].fate is Fate.SAME


@pytest.mark.parametrize(("was", "now", "why"), [
    ("PATCH", "{securityContext: {runAsUser: 7}}", "decides securityContext of the pods"),
    ("torch: {numProcPerNode: 4}", "mpi: {runLauncherAsNode: true}", "a run fills a Job launcher"),
])  # fmt: skip
def test_a_run_that_cannot_refer_to_its_runtime_brings_one_and_says_why(was: str, now: str, why: str) -> None:
    launcher = "mpirun" if "mpi:" in now else "torchrun"
    run = only(ON_A_RUNTIME.replace(was, now).replace("PATCH", "{}").replace("torchrun", launcher))
    assert "runtime" not in run.run
    assert (run.run["priority"], run.run["env"].get("PLATFORM")) == ("high", "yes")
    first = run.dropped[0]
    assert (first.pointer, first.value) == ("/runtime", "ours")
    assert why in first.why


def test_a_runtime_is_that_of_the_profile_which_else_lacks_it() -> None:
    text = ON_A_RUNTIME.replace("PATCH", "{}")
    profile = only(text).compiled.cluster
    there = brought(text.partition("---")[0], profile)
    assert (there.lacks, there.runs[0].run["runtime"]) == ((), "ours")
    other = brought(text.replace("maxRestarts: 7", "maxRestarts: 8"), profile)
    assert other.lacks == ("runtime ours as the files have it: its own is another one",)
    without = brought(text, validate(Cluster, parse_yaml(found_profile(text), "imported.yaml")))
    assert without.lacks[0] == "runtime ours; `trainwright runtimes imported FILE` writes it"
    assert "runtime" not in without.runs[0].run


def found_profile(text: str) -> str:
    """The one that is drafted, without its runtimes."""
    kept, _, rest = brought(text).profile_text.partition("runtimes:")
    return kept + "node_pools:" + rest.partition("node_pools:")[2]


STEPS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: steps}
spec:
  replicatedJobs:
  - name: fetch
    template: {spec: {template: {spec: {containers: [{name: c, image: 'a:1', command: [fetch]}]}}}}
  - name: work
    dependsOn: [{name: fetch, status: Complete}]
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, image: 'a:1', command: [work]}]}}}}
  - name: driver
    template: {spec: {template: {spec: {containers: [{name: c, image: 'a:1'}]}}}}
"""


def test_a_job_that_others_wait_to_see_end_comes_first_and_one_without_a_command_runs_its_image() -> None:
    run = only(STEPS).run
    assert (run["topology"]["nodes"], run["workload"]["command"]) == (2, ["work"])
    assert (run["roles"]["fetch"]["starts"], run["roles"]["fetch"]["command"]) == ("first", ["fetch"])
    assert (run["roles"]["driver"]["image"], run["roles"]["driver"]["must_end"]) == ("a:1", True)


def test_a_program_that_was_told_where_rank_0_is_is_told_it_again() -> None:
    (job,) = yaml.safe_load_all(SAMPLES["indexed-job"])
    main = job["spec"]["template"]["spec"]["containers"][0]
    job["metadata"]["name"], job["spec"]["template"]["spec"]["subdomain"] = "pair", "met"
    main |= {"command": ["python", "t.py"], "env": [{"name": "MASTER_ADDR", "value": "pair-0.met"}]}
    run = only(json.dumps(job))
    assert run.run["workload"]["launcher_variables"] is True
    main["env"] += [{"name": "NNODES", "value": "4"}, {"name": "LEVEL", "value": "info"}]  # the plan says it too
    run = only(json.dumps(job))
    assert (run.run["workload"]["launcher_variables"], run.run["env"]) == (True, {"LEVEL": "info"})


ENDING = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: ending}
spec:
  failurePolicy: {maxRestarts: 2, rules: [{action: ACTION, onJobFailureReasons: [PodFailurePolicy]}]}
  replicatedJobs:
  - name: slice
    template:
      spec:
        completions: 2
        parallelism: 2
        backoffLimit: 0
        podFailurePolicy:
          rules:
          - {action: FailJob, onExitCodes: {containerName: jax, operator: NotIn, values: [42, 127, 128, 129, 130]}}
        template: {spec: {restartPolicy: Never, containers: [{name: jax, image: 'jax:1', command: [python, t.py]}]}}
"""


@pytest.mark.parametrize(("action", "means"), [
    ("FailJobSet", "fail"), ("RestartJobSetAndIgnoreMaxRestarts", "ignore"), ("RestartJobSet", "count"),
])  # fmt: skip
def test_exit_codes_mean_what_the_job_set_does_with_a_job_that_they_fail(action: str, means: str, tmp_path: Path) -> None:
    run = assert_whole(ENDING.replace("ACTION", action), tmp_path)
    assert run.run["exit_codes"] == [{"means": means, "all_but": [42, "127-130"]}]


def test_exit_codes_of_a_job_come_over(tmp_path: Path) -> None:
    rule = "{action: Ignore, onExitCodes: {operator: In, values: [75, 76]}}"
    job = SAMPLES["indexed-job"].replace("spec:", f"spec:\n  podFailurePolicy: {{rules: [{rule}]}}", 1)
    assert assert_whole(job, tmp_path).run["exit_codes"] == [{"means": "ignore", "codes": [75, 76]}]


LAUNCHED = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: launched}
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template: {spec: {containers: [{name: starter, image: 'mpi:1', command: [mpirun, -n, '2', /bin/work]}]}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: workers
            image: mpi:1
            args: [/usr/sbin/sshd, -De]
            readinessProbe: {tcpSocket: {port: 2222}, initialDelaySeconds: 7}
"""


def test_a_role_keeps_the_name_of_its_container_and_what_tells_that_it_is_ready(tmp_path: Path) -> None:
    run = assert_whole(LAUNCHED, tmp_path)
    assert run.run["roles"]["launcher"]["container"] == "starter"
    assert run.run["roles"]["worker"]["ready"] == {"port": 2222, "after": "7s"}
    replicas = run.compiled.manifests[0]["spec"]["mpiReplicaSpecs"]
    assert [one["template"]["spec"]["containers"][0]["name"] for one in replicas.values()] == ["starter", "mpi"]


FETCHING = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: fetching}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec:
            template:
              spec:
                containers:
                - {name: dataset-initializer, image: 'fetch:1', volumeMounts: [{name: initializer, mountPath: /workspace}]}
                volumes: [{name: initializer, persistentVolumeClaim: {claimName: fetched}}]
      - name: gauge
        template: {spec: {template: {spec: {containers: [{name: gauge, image: 'gauge:1'}]}}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: 'torch:2'}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: reads}
spec:
  runtimeRef: {name: fetching}
  initializer:
    dataset: {storageUri: 'hf://team/set', secretRef: {name: hub}, env: [{name: RETRIES, value: '3'}]}
  trainer: {numNodes: 2, command: [torchrun, /workspace/t.py]}
"""


def test_a_train_job_tells_the_initializers_of_its_runtime_what_to_fetch_and_leaves_it_its_other_jobs() -> None:
    run = only(FETCHING)
    assert run.run["runtime"] == "fetching"
    assert run.run["initializer"] == {"dataset": {"storage_uri": "hf://team/set", "secret": "hub", "env": {"RETRIES": "3"}}}
    assert "roles" not in run.run
    assert run.compiled.cluster.namespaces["default"].claims.keys() == {"fetched"}  # which the runtime's own pods mount
    assert not run.dropped


def test_what_no_initializer_of_the_runtime_takes_is_told_and_costs_no_runtime() -> None:
    run = only(FETCHING.replace("{name: initializer, mountPath", "{name: other, mountPath"))
    assert run.run["runtime"] == "fetching"
    assert [one.pointer for one in run.dropped] == ["/initializer/dataset"]
    assert "mounts no volume called initializer" in run.dropped[0].why


def test_an_elastic_run_keeps_what_scales_it(tmp_path: Path) -> None:
    by = "[{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]"
    job = f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: grows}}
spec:
  elasticPolicy: {{rdzvBackend: c10d, minReplicas: 1, maxReplicas: 4, maxRestarts: 9, metrics: {by}}}
  pytorchReplicaSpecs:
    Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: pytorch, image: 'pt:2', command: [torchrun, t.py]}}]}}}}}}
"""
    run = assert_whole(job, tmp_path)
    assert run.compiled.manifests[0]["spec"]["elasticPolicy"]["metrics"] == yaml.safe_load(by)


STRANGE = """
apiVersion: batch/v1
kind: Job
metadata: {name: strange, labels: {kueue.x-k8s.io/queue-name: YOUR_QUEUE}}
spec:
  template:
    spec:
      schedulerName: other-scheduler
      restartPolicy: Never
      containers:
      - {name: c, image: 'a:1', command: [], args: [work], volumeMounts: [{name: d, mountPath: /data}]}
      volumes:
      - {name: d, persistentVolumeClaim: {claimName: YOUR_CLAIM}}
      - {name: proxied, emptyDir: {medium: Memory}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: nowhere, namespace: YOUR_SPACE}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'a:1'}]}}}
---
apiVersion: kubeflow.org/v1alpha1
kind: MPIJob
metadata: {name: old}
spec: {replicas: 2, template: {spec: {containers: [{name: c, image: 'a:1'}]}}}
"""


def test_names_that_no_cluster_has_cost_their_own_run_a_value_and_no_other_run_anything() -> None:
    found = brought(STRANGE)
    (run,) = found.runs
    assert {one.pointer for one in run.dropped} == {"/mounts/~1data/claim", "/queue"}
    reasons = [finding.message for one in found.failed for finding in one.findings]
    assert len(reasons) == 2
    assert "namespace YOUR_SPACE must consist of lowercase letters" in reasons[0]
    assert "write it in the version of its kind that its operator serves today" in reasons[1]


def test_an_override_keeps_a_scheduler_and_a_volume_that_others_mount() -> None:
    (run,) = brought(STRANGE).runs
    volume = {"name": "proxied", "emptyDir": {"medium": "Memory"}}
    assert run.run["overrides"] == {"pod": {"node": {"schedulerName": "other-scheduler", "volumes": [volume]}}}
    assert run.run["workload"] == {"kind": "command", "args": ["work"]}  # an empty command is none


def test_a_claim_that_a_job_set_makes_becomes_one_of_the_namespace(tmp_path: Path) -> None:
    made = ENDING.replace("spec:\n  failurePolicy", """spec:
  volumeClaimPolicies:
  - templates:
    - metadata: {name: shared}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 3Gi}}}
  failurePolicy""").replace("command: [python", "volumeMounts: [{name: shared, mountPath: /scratch/}], command: [python")
    run = assert_whole(made.replace("ACTION", "FailJobSet"), tmp_path)
    assert run.run["mounts"] == {"/scratch": {"claim": "shared"}}
    assert str(run.compiled.cluster.namespaces["default"].claims["shared"].size) == "3Gi"


SHARED_MEMORY = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: shares}
spec:
  entrypoint: python a.py
  rayClusterSpec:
    headGroupSpec: {rayStartParams: {}, template: {spec: &pod {
      containers: [{name: ray, image: 'rayproject/ray:2.52.0', resources: {limits: {cpu: 1, memory: 4Gi}},
                    volumeMounts: [{name: dshm, mountPath: /dev/shm}]}],
      volumes: [{name: dshm, emptyDir: {medium: Memory}}]}}}
    workerGroupSpecs:
    - {groupName: w, replicas: 2, rayStartParams: {}, template: {spec: *pod}}
"""


def test_options_of_ray_are_words_but_for_those_that_are_said_anyway() -> None:
    """Also the CPUs of a head that holds no ranks, where the original lets tasks run there."""
    by_itself = "block: 'true', metrics-export-port: '8080'"
    text = SHARED_MEMORY.replace("rayStartParams: {}", f"rayStartParams: {{num-cpus: '2', port: '6379', {by_itself}}}", 1)
    text = text.replace("rayStartParams: {}", f"rayStartParams: {{num-cpus: '1', {by_itself}}}")
    assert only(text).run["topology"]["start_params"] == {"head": {"num-cpus": "2"}, "worker": {"num-cpus": "1"}}
    options = [one for each in told(Source("given.yaml", text)) for one in each.account.verdicts if "rayStart" in one.pointer]
    assert [one.fate for one in options if "num-cpus" in one.pointer] == [Fate.SAME, Fate.RENAMED]
    assert [(one.fate, one.lost) for one in options if "num-cpus" not in one.pointer] == [(Fate.LEFT_OUT, False)] * 5


@pytest.mark.parametrize(("head", "options", "holds"), [
    ("nvidia.com/gpu: 2", "", True), ("nvidia.com/gpu: 1", "", False), ("nvidia.com/gpu: 2", "num-cpus: '0'", False),
    ("nvidia.com/mig-1g.10gb: 2", "", False),
])  # fmt: skip
def test_a_head_with_the_gpus_of_a_worker_is_a_node(head: str, options: str, holds: bool) -> None:
    text = SHARED_MEMORY.replace("cpu: 1", f"cpu: 1, {head}", 1).replace("{spec: *pod}", "POD")
    text = text.replace("rayStartParams: {}", f"rayStartParams: {{{options}}}", 1)
    worker = "{spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0', resources: {limits: {nvidia.com/gpu: 2}}}]}}"
    topology = only(text.replace("POD", worker)).run["topology"]
    assert (topology.get("head_is_node", False), topology["nodes"], topology["gpus_per_node"]) == (holds, 2 + holds, 2)


def test_the_memory_of_the_node_is_half_of_the_pods_own() -> None:
    run = only(SHARED_MEMORY.replace("emptyDir: {medium: Memory}", "hostPath: {path: /dev/shm}"))
    assert run.run["resources"]["shared_memory"] == "2Gi"
    assert "mounts" not in run.run


def test_a_program_may_start_at_the_root_of_its_image() -> None:
    text = APART.replace("APP", "").replace("KEY", "rack").replace("command: [torchrun", "workingDir: /, command: [torchrun")
    assert only(text).run["workload"]["working_dir"] == "/"


def test_workers_of_ray_keep_apart_by_the_label_of_their_group() -> None:
    wish = "{labelSelector: {matchLabels: {ray.io/group: GROUP}}, topologyKey: kubernetes.io/hostname}"
    apart = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{wish}]}}}}"
    worker = f"{{spec: {{{apart}, containers: [{{name: ray, image: 'rayproject/ray:2.52.0'}}]}}}}"
    text = SHARED_MEMORY.replace("{spec: *pod}", worker)
    assert only(text.replace("GROUP", "w")).run["placement"] == {"one_per_node": True}
    assert "placement" not in only(text.replace("GROUP", "other")).run


@pytest.mark.parametrize("stated", ["limits", "requests"])
def test_shared_memory_without_a_size_is_half_of_the_memory(stated: str, tmp_path: Path) -> None:
    run = assert_whole(SHARED_MEMORY.replace("limits", stated), tmp_path)
    assert run.run["resources"]["shared_memory"] == "2Gi"
    assert run.run["roles"]["head"]["resources"]["shared_memory"] == "2Gi"


APART = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: apart}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata: {labels: {app: trains}}
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - {labelSelector: {APP}, topologyKey: KEY}
          containers: [{name: pytorch, image: 'pt:2', command: [torchrun, t.py]}]
"""


@pytest.mark.parametrize(("app", "key", "word"), [
    ("matchLabels: {app: trains}", "kubernetes.io/hostname", "placement"),
    ("matchLabels: {training.kubeflow.org/job-name: apart}", "kubernetes.io/hostname", "placement"),
    ("matchLabels: {app: trains}", "rack", "pod_anti_affinity"),
    ("matchLabels: {app: serves}", "kubernetes.io/hostname", "pod_anti_affinity"), ("", "kubernetes.io/hostname", "overrides"),
])  # fmt: skip
def test_one_pod_a_node_is_a_word_where_the_pods_keep_apart_from_each_other(app: str, key: str, word: str) -> None:
    run = only(APART.replace("APP", app).replace("KEY", key)).run
    assert run.keys() & {"placement", "pod_anti_affinity", "overrides"} == {word}
    assert run.get("placement", {}) in ({}, {"one_per_node": True})


def verdicts(text: str) -> dict[str, Verdict]:
    """The last part of a leaf's place -> what became of it."""
    return {one.place.rpartition("/")[2]: one for each in told(Source("given.yaml", text)) for one in each.account.verdicts}


def near(term: str, *, weight: int | None = None, queue: str = "", key: str = "example.com/rack") -> str:
    """Pods that want to be where others are; ``term`` selects those."""
    stated = f"{{labelSelector: {{{term}}}, topologyKey: {key}}}"
    rule, one = ("required", stated) if weight is None else ("preferred", f"{{weight: {weight}, podAffinityTerm: {stated}}}")
    text = APART.replace("podAntiAffinity", "podAffinity").replace("{labelSelector: {APP}, topologyKey: KEY}", one)
    text = text.replace("requiredDuring", f"{rule}During")
    return text.replace("{name: apart}", f"{{name: apart, labels: {{kueue.x-k8s.io/queue-name: {queue}}}}}") if queue else text


ITS_OWN = "matchExpressions: [{key: app, operator: In, values: [trains]}]"


@pytest.mark.parametrize("queue", ["", "gold"])
@pytest.mark.parametrize(("weight", "placement"), [(None, {"together": "rack", "required": True}), (100, {"together": "rack"})])
def test_one_place_is_a_word_where_the_pods_want_to_be_with_each_other(weight: int | None, placement: Any, queue: str) -> None:
    """Without a queue, or in one that does not look for places."""
    text = near(ITS_OWN, weight=weight, queue=queue)
    found = brought(text)
    (run,) = found.runs
    assert run.run["placement"] == placement
    assert "overrides" not in run.run
    assert found.profile is not None
    assert found.profile["topology"] == {"rack": {"label": "example.com/rack"}}
    assert found.profile.get("kueue", {}).get("topology_aware", True) is not bool(queue)
    assert only(emitted(run), run.compiled.cluster).run == run.run
    assert "podAffinity" in emitted(run)
    said = verdicts(text)
    assert said["topologyKey"].fate is Fate.SAME
    assert said["trains (1)"].fate is Fate.CHANGED
    assert not said["trains (1)"].lost
    assert said["trains (1)"].why.startswith("all pods with ranks in one such place")


BESIDE = "{weight: 50, podAffinityTerm: {labelSelector: {matchLabels: {app: cache}}, topologyKey: example.com/zone}}"
LEADER = """    Master:
      replicas: 1
      template: {spec: {containers: [{name: pytorch, image: 'pt:2', command: [torchrun, t.py]}]}}
"""


@pytest.mark.parametrize("text", [
    near("matchLabels: {app: serves}"), near("matchLabels: {batch.kubernetes.io/job-name: prepare}"),
    near("matchExpressions: [{key: other, operator: DoesNotExist}]"), near(ITS_OWN, weight=7),
    near(ITS_OWN, weight=100).replace("- {weight", f"- {BESIDE}\n              - {{weight"),
    near(ITS_OWN, key="kubernetes.io/hostname"), near(ITS_OWN).replace("    Worker:", f"{LEADER}    Worker:"),
])  # fmt: skip
def test_any_other_wish_to_be_near_is_said_as_it_stands(text: str) -> None:
    """Of other pods, of nearly all, weighed otherwise, one of several, of one role alone."""
    found = only(text)
    words = found.run.keys() | {key for role in found.run.get("roles", {}).values() for key in role}
    assert words & {"placement", "overrides", "pod_affinity"} == {"pod_affinity"}
    assert only(emitted(found), found.compiled.cluster).run == found.run
    wishes = [one for each in told(Source("given.yaml", text)) for one in each.account.verdicts if "podAffinity" in one.pointer]
    assert {one.fate for one in wishes} == {Fate.SAME}


def test_what_one_role_wants_is_no_wish_of_all_ranks() -> None:
    text = near("matchLabels: {app: serves}").replace("    Worker:", f"{LEADER}    Worker:")
    found = only(text)
    replicas_of = found.compiled.manifests[0]["spec"]["pytorchReplicaSpecs"]
    assert {name: "affinity" in one["template"]["spec"] for name, one in replicas_of.items()} == {"Master": False, "Worker": True}
    assert list(found.run["roles"]["worker"]["pod_affinity"]) == ["required"]


@pytest.mark.parametrize("label", ["app.kubernetes.io/name: trains", "volcano.sh/task-spec: w"])
def test_labels_that_are_others_in_ours_are_no_words(label: str) -> None:
    text = near(f"matchLabels: {{{label}}}", weight=7).replace("labels: {app: trains}", f"labels: {{app: trains, {label}}}")
    assert "pod_affinity" not in only(text).run


@pytest.mark.parametrize(("term", "said"), [
    ("matchLabels: {app: x, fast: true}, matchExpressions: []", {"labels": {"app": "x", "fast": "true"}}),
    ("matchExpressions: [{key: app, operator: Exists, values: []}]", {"expressions": [{"key": "app", "operator": "Exists"}]}),
    ("matchExpressions: [{key: app, operator: In, values: [1]}]",
     {"expressions": [{"key": "app", "operator": "In", "values": ["1"]}]}),
])  # fmt: skip
def test_what_a_term_says_in_another_form_is_said_once(term: str, said: Any) -> None:
    run = only(near(term)).run
    assert run["pod_affinity"] == {"required": [{**said, "topology_key": "example.com/rack"}]}
    assert "overrides" not in run


def test_a_name_that_other_labels_have_a_part_of_is_none_of_theirs() -> None:
    text = near("matchLabels: {app: zones}", key="topology.kubernetes.io/zone").replace("name: apart", "name: zone")
    assert only(text).run["pod_affinity"]["required"][0]["labels"] == {"app": "zones"}


@pytest.mark.parametrize("field", ["matchLabelKeys: [app]", "namespaceSelector: {}"])
def test_a_wish_that_no_word_says_is_an_override(field: str) -> None:
    text = near("matchLabels: {app: serves}").replace("topologyKey", f"{field}, topologyKey")
    run = only(text).run
    assert "pod_affinity" not in run
    assert field.partition(":")[0] in json.dumps(run["overrides"])


def test_a_wish_beside_that_of_the_plan_is_kept_with_it() -> None:
    """On the network of the node, pods of one run are apart anyway."""
    text = APART.replace("APP", "matchLabels: {app: serves}").replace("KEY", "kubernetes.io/hostname")
    found = only(text.replace("          affinity:", "          hostNetwork: true\n          affinity:"))
    (job,) = found.compiled.manifests
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "overrides" not in found.run
    assert [list(one["labelSelector"]["matchLabels"]) for one in terms] == [["app.kubernetes.io/instance"], ["app"]]


def test_a_queue_that_finds_places_changes_no_affinity() -> None:
    """Kueue would admit no pods with its annotation where flavors name no Topology."""
    text, aware = near(ITS_OWN, queue="gold"), brought(near(ITS_OWN, queue="gold")).profile
    assert aware is not None
    aware["kueue"].pop("topology_aware")
    on_profile = only(text, validate(Cluster, parse_yaml(json.dumps(aware), "profile.yaml")))
    asks = "metadata: {labels: {app: trains}, annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}"
    beside = APART.replace("metadata: {name: apart}", "metadata: {name: asks, labels: {kueue.x-k8s.io/queue-name: gold}}")
    beside = beside.replace("metadata: {labels: {app: trains}}", asks).replace("APP", "").replace("KEY", "kubernetes.io/hostname")
    asking, drafted = brought(f"{beside}---{text}").runs
    assert asking.run["placement"] == {"together": "rack", "required": True}
    for one in (on_profile, drafted):
        assert one.run.keys() & {"placement", "pod_affinity"} == {"pod_affinity"}
        assert "podset-required-topology" not in emitted(one)


def test_levels_have_names_that_differ() -> None:
    names = ["rack", "rack-2", "rack-3", "level"]
    labels = ["example.com/rack", "example.org/rack", "example.com/1rack", "example.com/7"]
    texts = [near(ITS_OWN, key=label).replace("name: apart", f"name: apart-{place}") for place, label in enumerate(labels)]
    found = brought("---".join(texts))
    assert found.profile is not None
    assert [(name, one["label"]) for name, one in found.profile["topology"].items()] == list(zip(names, labels, strict=True))
    assert [one.run["placement"]["together"] for one in found.runs] == names
    assert "placement" not in only(near(ITS_OWN, key="'no label'")).run


def test_what_keeps_off_others_is_lost_where_nothing_keeps_it() -> None:
    text = APART.replace("APP", "matchLabels: {app: apart-server}").replace("KEY", "kubernetes.io/hostname")
    text = text.replace("          affinity:", "          hostNetwork: true\n          affinity:")
    said = verdicts(text)
    assert said["app"].lost


def test_a_place_without_a_level_in_the_profile_stays_as_it_is() -> None:
    profile = brought(near(ITS_OWN)).profile
    assert profile is not None
    apart = "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: trains}}, "
    text = near(ITS_OWN).replace("affinity:\n", f"affinity:\n            {apart}topologyKey: kubernetes.io/hostname}}]}}\n")
    own = {key: value for key, value in profile.items() if key != "topology"}
    there = brought(text, validate(Cluster, parse_yaml(json.dumps(own), "profile.yaml")))
    (run,) = there.runs
    assert there.lacks == ("a topology level of label example.com/rack",)
    assert run.run["placement"] == {"one_per_node": True}
    assert run.run["pod_affinity"]["required"][0]["topology_key"] == "example.com/rack"


def test_a_mount_of_what_an_operator_puts_into_the_pod_costs_no_container() -> None:
    beside = "{name: reads, image: 'b:1', volumeMounts: [{name: operators, mountPath: /o}, {name: dshm, mountPath: /m}]}"
    (container,) = only(SHARED_MEMORY.replace("containers: [", f"initContainers: [{beside}], containers: [")).run["containers"]
    assert (container["name"], container["mounts"]) == ("reads", {"/m": {"same_as": "/dev/shm"}})


def test_a_folder_of_one_role_stays_beside_what_the_others_have_in_their_image() -> None:
    master = "Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: 'pt:2', command: [torchrun, t.py], " \
        "volumeMounts: [{name: code, mountPath: /app}]}], volumes: [{name: code, configMap: {name: code}}]}}}"
    text = APART.replace("    Worker:", f"    {master}\n    Worker:").replace("APP", "").replace("KEY", "rack")
    code = '\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: code}, data: {t.py: "print()"}}\n'
    run = only(text + code).run
    assert run["files"] == {"/app/t.py": "print()"}
    assert "file_folders" not in run


FOLDERS = """
apiVersion: batch/v1
kind: Job
metadata: {name: folders}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: 'a:1'
        command: [python, /app/t.py, --config=/etc/one.yaml]
        volumeMounts:
        - {name: code, mountPath: /app/}
        - {name: data, mountPath: /app/data}
        - {name: settings, mountPath: /settings}
        - {name: settings, mountPath: /etc/one.yaml, subPath: one.yaml}
      volumes:
      - {name: code, configMap: {name: code, defaultMode: 0555}}
      - {name: settings, configMap: {name: settings, items: [{key: one.yaml, path: sub/one.yaml}]}}
      - {name: data, persistentVolumeClaim: {claimName: data}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: code}, data: {t.py: "print()"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {one.yaml: "a: 1"}}
"""


def test_a_folder_of_a_config_map_stays_one_unless_something_is_mounted_in_it() -> None:
    run = only(FOLDERS)
    assert run.run["files"] == {"/app/t.py": "print()", "/settings/sub/one.yaml": "a: 1"}
    assert run.run["file_modes"] == {"/app/t.py": "0555"}
    assert run.run["file_folders"] == ["/settings"]
    assert [one.pointer for one in run.dropped] == ["/file_folders/0"]


def test_pods_that_never_come_back_end_the_run() -> None:
    run = only("""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: once}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: Never
      template: {spec: {containers: [{name: tensorflow, image: 'tf:2', command: [python, t.py]}]}}
""")
    assert (run.run["restarts"], run.run["on_disruption"]) == (0, "fail")
    assert run.compiled.manifests[0]["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] == "Never"


def replicas(text: str) -> str:
    """A TFJob with these replicas."""
    return f"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {{name: tf}}\nspec:\n  tfReplicaSpecs:\n{text}"


TF_POD = "template: {spec: {containers: [{name: tensorflow, image: 'tf:2', command: [python, t.py]}]}}"


def test_types_of_replicas_are_known_by_any_case_and_a_master_is_the_chief() -> None:
    found = told(Source("given.yaml", replicas(f"    MASTER: {{{TF_POD}}}\n    Ps: {{{TF_POD}}}\n    worker: {{{TF_POD}}}\n")))
    (job,) = found
    pods = [one for one in job.account.verdicts if "/tfReplicaSpecs/" in one.pointer]
    assert {one.place.split("/")[2] for one in pods} == {"MASTER", "Ps", "worker"}
    assert {one.fate for one in pods} == {Fate.RENAMED}


def test_adapters_of_pods_without_gpus_are_those_of_their_own_pool() -> None:
    """Which has some, because the pods that train have them from theirs."""
    has = "resources: {limits: {rdma/vhca: 2, nvidia.com/gpu: 1}}, command"
    workers = TF_POD.replace("command", has)
    servers = TF_POD.replace("command", has.replace(", nvidia.com/gpu: 1", ""))
    found = brought(replicas(f"    PS: {{{servers}}}\n    Worker: {{replicas: 2, {workers}}}\n"))
    (run,) = found.runs
    assert found.profile is not None
    assert {name: pool["fabric"]["resource_count"] for name, pool in found.profile["node_pools"].items()} == {"gpu": 2, "cpu": 2}
    assert run.run["roles"]["ps"]["resources"]["devices"] == {"rdma/vhca": 2}
    assert not run.dropped


def test_a_thousand_of_a_device_are_no_adapters_of_a_node() -> None:
    pod = TF_POD.replace("command", "resources: {limits: {rdma/hca: 1k, nvidia.com/gpu: 1}}, command")
    found = brought(replicas(f"    Worker: {{replicas: 2, {pod}}}\n"))
    (run,) = found.runs
    assert found.profile is not None
    assert "fabric" not in found.profile["node_pools"]["gpu"]
    assert run.run["resources"]["devices"] == {"rdma/hca": 1000}
    (job,) = told(Source("given.yaml", replicas(f"    Worker: {{replicas: 2, {pod}}}\n")))
    assert {one.fate for one in job.account.verdicts if "rdma" in one.pointer} == {Fate.SAME}


VOLCANO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: pair}
spec:
  schedulerName: volcano
  minAvailable: 4
  plugins: {pytorch: ["--master=master", "--worker=worker", "--port=23456"]}
  tasks:
  - {name: master, replicas: 1, template: {spec: {containers: [{name: c, image: 'pt:2', command: [torchrun, t.py]}]}}}
  - {name: worker, replicas: 3, template: {spec: {containers: [{name: c, image: 'IMAGE', command: [torchrun, t.py]}]}}}
"""


@pytest.mark.parametrize(("image", "is_the_same"), [("pt:2", True), ("pt:3", False)])
def test_a_master_and_workers_of_one_template_are_both_in_the_one_task_of_the_run(image: str, is_the_same: bool) -> None:
    (job,) = told(Source("given.yaml", VOLCANO.replace("IMAGE", image)))
    worker = [one for one in job.account.verdicts if one.pointer.startswith("/spec/tasks/1/template")]
    assert worker
    assert all(one.fate is Fate.RENAMED for one in worker) is is_the_same
    assert all(one.lost for one in worker) is not is_the_same
    plugin = [one for one in job.account.verdicts if one.pointer.startswith("/spec/plugins/pytorch/")]
    assert ["variables of the plan" in one.why for one in plugin] == [True] * 3


def test_pods_of_a_role_are_kept_apart_by_the_label_that_its_operator_gives_them() -> None:
    text = APART.replace("KEY", "kubernetes.io/hostname")
    term = "matchLabels: {training.kubeflow.org/job-name: apart, training.kubeflow.org/replica-type: ROLE}"
    assert only(text.replace("APP", term.replace("ROLE", "worker"))).run["placement"] == {"one_per_node": True}
    assert "placement" not in only(text.replace("APP", term.replace("ROLE", "master"))).run


def test_ranks_of_one_role_that_keep_apart_say_nothing_for_those_of_another() -> None:
    term = "matchLabels: {training.kubeflow.org/job-name: apart, training.kubeflow.org/replica-type: worker}"
    text = APART.replace("APP", term).replace("KEY", "kubernetes.io/hostname")
    master = f"    Master: {{{TF_POD.replace('tensorflow', 'pytorch')}}}\n    Worker:"
    assert "placement" not in only(text.replace("    Worker:", master)).run


def test_a_label_counts_only_with_its_own_value() -> None:
    """The name is that of the object in a controller's label, and the template has it in another one."""
    text = near("matchLabels: {training.kubeflow.org/job-name: apart, app: trains}").replace("{app: trains}}", "{app: apart}}", 1)
    assert verdicts(text)["job-name"].lost


def test_two_cases_of_one_type_of_replicas_are_two() -> None:
    (job,) = told(Source("given.yaml", replicas(f"    Worker: {{{TF_POD}}}\n    worker: {{{TF_POD}}}\n")))
    assert {one.lost for one in job.account.verdicts if "/tfReplicaSpecs/worker/" in one.pointer} == {True}


def test_pods_without_ranks_keep_apart_by_a_word_of_their_role() -> None:
    wish = "{labelSelector: {matchLabels: {replica-type: ps}}, topologyKey: kubernetes.io/hostname}"
    apart = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{wish}]}}}}"
    servers = TF_POD.replace("{spec: {", f"{{spec: {{{apart}, ")
    run = only(replicas(f"    PS: {{{servers}}}\n    Worker: {{{TF_POD}}}\n")).run
    assert "placement" not in run
    assert list(run["roles"]["ps"]["pod_anti_affinity"]) == ["required"]


def test_a_wish_for_pods_of_a_label_of_ones_own_stays_where_the_label_is_called_as_the_object() -> None:
    text = APART.replace("APP", "matchLabels: {app: apart}").replace("KEY", "rack").replace("{app: trains}", "{app: apart}")
    assert only(text).run["pod_anti_affinity"]["required"][0]["labels"] == {"app": "apart"}


def test_a_namespace_that_its_pods_cannot_be_in_after_all_demands_less() -> None:
    """They give up what the level restricted asks, and run as a user without a home for keys."""
    own = "securityContext: {runAsUser: 10001, runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
    pod = f"{{spec: {{containers: [{{name: mpi, image: 'mpi:5', command: [COMMAND], {own}}}]}}}}"
    launcher, worker = pod.replace("COMMAND", "mpirun, -np, '2', python, t.py"), pod.replace("command: [COMMAND], ", "")
    found = brought(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: ssh}\nspec:\n  mpiReplicaSpecs:\n"
        f"    Launcher: {{template: {launcher}}}\n    Worker: {{replicas: 2, template: {worker}}}\n"
    )
    assert not found.failed
    assert found.profile
    assert found.profile["namespaces"]["default"]["pod_security"] == "baseline"
    assert [one.pointer for one in found.runs[0].dropped] == ["/security/user"]
