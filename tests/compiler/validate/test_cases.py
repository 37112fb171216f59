"""Small manifests after public reports: what the cluster takes is no error, and what it refuses or does otherwise is named.

Each file in ``cases/`` says in its first line what is right, and where it was reported.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.compiler.projects import Scratch, assert_ended
from tests.compiler.validate.samples import PROJECT, UPSTREAM

from trainwright.validate import validate_files
from trainwright.validate.core import core_problems
from trainwright.validate.manifests import read_manifests

CASES = Path(__file__).parent / "cases"
Findings = list[tuple[str, str]]

SAID: dict[str, Findings] = {
    "job-indexed-parallelism": [("TW714", "/spec/completions")],
    "hostport": [("TW705", "/spec/template/spec/containers/0/ports/0/hostPort")],
    "job-exitcodes-container": [("TW705", "/spec/podFailurePolicy/rules/0/onExitCodes/containerName")],
    "job-exitcodes-unordered": [("TW705", "/spec/podFailurePolicy/rules/0/onExitCodes/values")],
    "job-gpu-fraction": [("TW705", "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu")],
    "job-indexed-name": [("TW705", "/metadata/name")],
    "job-maxfailedindexes": [("TW705", "/spec/maxFailedIndexes")],
    "job-name-64": [("TW705", "/metadata/name")],
    "job-podreplacementpolicy": [("TW705", "/spec/podReplacementPolicy")],
    "job-rule-both": [("TW705", "/spec/podFailurePolicy/rules/0")],
    "job-selector": [("TW705", "/spec/selector")],
    "job-successpolicy-count": [("TW705", "/spec/successPolicy/rules/0/succeededCount")],
    "jobset-no-completions": [("TW711", "/spec/replicatedJobs/0/template/spec/completions")],
    "jobset-podfailurepolicy-default": [("TW711", "/spec/replicatedJobs/0/template/spec/podFailurePolicy")],
    "jobset-podfailurepolicy-onfailure": [("TW711", "/spec/replicatedJobs/0/template/spec/podFailurePolicy")],
    "jobset-rule-name": [],
    "jobset-volumeclaim-unmounted": [
        ("TW716", "/spec/volumeClaimPolicies/0/templates/0/metadata/name"),
        ("TW711", "/spec/volumeClaimPolicies/0/templates/0/metadata/name"),
    ],
    "jobset-volumeclaim": [("TW716", "/spec/volumeClaimPolicies/0/templates/0/metadata/name")],
    "kueue-annotation": [("TW714", "/metadata/annotations/kueue.x-k8s.io~1queue-name")],
    "kueue-min-parallelism": [("TW711", "/metadata/annotations/kueue.x-k8s.io~1job-min-parallelism")],
    "kueue-two-topologies": [("TW711", "/spec/template/metadata/annotations/kueue.x-k8s.io~1podset-preferred-topology")],
    "kustomization": [("TW715", "/kind")],
    "null-amount": [
        ("TW714", "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/requests/nvidia.com~1gpu"),
        ("TW714", "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/limits/nvidia.com~1gpu"),
    ],
    "pytorch-elastic-min-max": [("TW713", "/spec/elasticPolicy/minReplicas")],
    "ray-autoscaler-restart": [("TW711", "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/restartPolicy")],
    "ray-replicas-above-max": [("TW714", "/spec/rayClusterSpec/workerGroupSpecs/0/replicas")],
    "ray-runtimeenv-list": [("TW711", "/spec/runtimeEnvYAML")],
    "ray-runtimeenv-yaml": [("TW711", "/spec/runtimeEnvYAML")],
    "runtime-podfailurepolicy": [("TW711", "/spec/template/spec/replicatedJobs/0/template/spec/podFailurePolicy")],
    "toleration-value": [("TW705", "/spec/template/spec/tolerations/0/value")],
    "trainer-initializer-mount": [
        ("TW714", "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers"),
        ("TW711", "/spec/initializer/dataset"),
    ],
    "volcano-action": [("TW711", "/spec/policies/0/action")],
    "volcano-code-onfailure": [("TW714", "/spec/policies/0/exitCode")],
    "volcano-code-zero": [("TW711", "/spec/policies/0/exitCode")],
    "volcano-duplicate-event": [("TW711", "/spec/policies/1")],
    "volcano-event-and-code": [("TW711", "/spec/policies/0")],
    "volcano-gpu-fraction": [("TW705", "/spec/tasks/0/template/spec/containers/0/resources/limits/nvidia.com~1gpu")],
    "volcano-internal-event": [("TW711", "/spec/policies/0/event")],
    "volcano-mpi-master": [("TW711", "/spec/plugins/mpi")],
    "volcano-policy-empty": [("TW711", "/spec/policies/0")],
    "volcano-topology": [("TW711", "/spec/networkTopology/highestTierName")],
}
"""Name of a case -> what is said of it."""

POD = "spec: {restartPolicy: Never, containers: [{name: main, image: 'x/y:1'}]}"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n"
IN_POD = "/spec/template/spec"


def said(path: Path) -> Findings:
    """Without what is said of kinds whose CRD is not at hand."""
    findings = validate_files([path], Path(UPSTREAM) if UPSTREAM else None).findings
    return [(finding.code, finding.where.pointer) for finding in findings if finding.code != "TW702"]


def said_of(folder: Path, text: str, name: str = "manifest.yaml") -> Findings:
    (folder / name).write_text(text, encoding="utf-8")
    return said(folder / name)


@pytest.mark.parametrize("name", SAID)
def test_a_reported_manifest(name: str) -> None:
    assert said(CASES / f"{name}.yaml") == SAID[name]


def test_every_case_is_told() -> None:
    assert {path.stem for path in CASES.glob("*.yaml")} == {*SAID}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", []),
        ("  completions: 1\n", []),
        ("  completions: 4\n  parallelism: 2\n", []),
        ("  completions: 4\n  parallelism: null\n", [("TW714", "/spec/completions")]),
        ("  parallelism: 4\n", [("TW704", "/spec/completions")]),
        ("  completions: 8\n  backoffLimitPerIndex: 1\n", [("TW714", "/spec/completions")]),
    ],
)
def test_an_indexed_job_has_the_defaults_of_the_api_server(tmp_path: Path, spec: str, expected: Findings) -> None:
    assert said_of(tmp_path, f"{JOB}  completionMode: Indexed\n{spec}  template: {{{POD}}}\n") == expected


def test_one_of_a_cron_job_too(tmp_path: Path) -> None:
    job = f"{{completionMode: Indexed, completions: 3, template: {{{POD}}}}}"
    spec = f"{{schedule: '0 1 * * *', jobTemplate: {{spec: {job}}}}}"
    text = f"apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: a}}\nspec: {spec}\n"
    assert said_of(tmp_path, text) == [("TW714", "/spec/jobTemplate/spec/completions")]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("[{action: FailJobSet}, {action: RestartJobSet}]", []),
        ("[{name: '', action: FailJobSet}, {name: mine, action: RestartJobSet}]", []),
        ("[{name: null, action: FailJobSet}]", []),
        ("[{name: failurePolicyRule1, action: FailJobSet}, {action: RestartJobSet}]",
         [("TW711", f"/spec/failurePolicy/rules/{index}/name") for index in (0, 1)]),
        ("[{name: 1st, action: FailJobSet}]", [("TW711", "/spec/failurePolicy/rules/0/name")]),
    ],
)  # fmt: skip
def test_rules_of_a_jobset_get_names(tmp_path: Path, rules: str, expected: Findings) -> None:
    text = (CASES / "jobset-rule-name.yaml").read_text(encoding="utf-8")
    start, end = text.index("    rules:"), text.index("  replicatedJobs:")
    assert sorted(said_of(tmp_path, f"{text[:start]}    rules: {rules}\n{text[end:]}")) == sorted(expected)


MOUNTING = "{containers: [{name: a, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec:\n  serviceName: a\n  selector: {}\n"
         f"  volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{}}}}]\n  template: {{spec: {MOUNTING}}}\n", False),
        ("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec:\n  leaderWorkerTemplate:\n"
         f"    volumeClaimTemplates: [{{metadata: {{name: data}}}}]\n    workerTemplate: {{spec: {MOUNTING}}}\n", False),
        ("apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: a}\nspec:\n"
         "  volumes: [{name: data}]\n"
         "  driver: {initContainers: [{name: a, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}\n", False),
        ("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec:\n  leaderWorkerTemplate:\n"
         f"    volumeClaimTemplates: [{{metadata: {{name: dat}}}}]\n    workerTemplate: {{spec: {MOUNTING}}}\n", True),
        ("apiVersion: example.com/v1\nkind: Pair\nmetadata: {name: a}\nspec:\n  one: {volumes: [{name: data}]}\n"
         f"  two: {{template: {{spec: {MOUNTING}}}}}\n", True),
    ],
)  # fmt: skip
def test_volumes_may_come_from_the_object_around_a_pod(tmp_path: Path, text: str, missing: bool) -> None:
    places = [pointer for code, pointer in said_of(tmp_path, text) if "volumeMounts" in pointer and code == "TW705"]
    assert bool(places) == missing


def test_a_claim_policy_supplies_its_own_claims_alone(tmp_path: Path) -> None:
    text = (CASES / "jobset-volumeclaim.yaml").read_text(encoding="utf-8")
    two = text.replace("mountPath: /ckpt}]", "mountPath: /ckpt}, {name: data, mountPath: /data}]")
    place = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/volumeMounts/1/name"
    assert [found for found in said_of(tmp_path, two) if found[0] != "TW716"] == [("TW705", place)]


@pytest.mark.parametrize(
    "text",
    [
        "resources: [job.yaml]\n",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [a.yaml]\n",
    ],
)
def test_what_kustomize_reads_is_no_object(tmp_path: Path, text: str) -> None:
    assert [code for code, _ in said_of(tmp_path, text, "kustomization.yaml")] == ["TW715"]
    (tmp_path / "job.yaml").write_text(f"{JOB}  template: {{{POD}}}\n", encoding="utf-8")
    (tmp_path / "overlay").mkdir()
    shutil.copy(tmp_path / "kustomization.yaml", tmp_path / "overlay" / "kustomization.yml")
    report = validate_files([tmp_path], None)
    assert (report.objects, report.errors, [it.code for it in report.findings]) == (1, 0, ["TW715"])


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("kind.x-k8s.io/v1alpha4", "Cluster"),
        ("kubeadm.k8s.io/v1beta4", "ClusterConfiguration"),
        ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"),
        ("config.kueue.x-k8s.io/v1beta2", "Configuration"),
        ("v1", "Config"),
    ],
)
def test_what_another_tool_reads_is_no_object(tmp_path: Path, version: str, kind: str) -> None:
    assert said_of(tmp_path, f"apiVersion: {version}\nkind: {kind}\n") == [("TW715", "/kind")]


def test_an_object_without_a_kind_stays_an_error(tmp_path: Path) -> None:
    assert {code for code, _ in said_of(tmp_path, "resources: [job.yaml]\n", "values.yaml")} == {"TW709"}
    assert {code for code, _ in said_of(tmp_path, "apiVersion: v1\nkind: Pod\n", "kustomization.yaml")} >= {"TW709"}


GENERATED = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{generateName: train-}}\nspec: {{template: {{{POD}}}}}\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", [("TW715", "/metadata/generateName")]),
        ("train-", "t" * 200, [("TW715", "/metadata/generateName")]),  # the API server cuts it
        ("train-", "Train-", [("TW715", "/metadata/generateName"), ("TW709", "/metadata/name")]),
        ("generateName: train-", "name: a, generateName: train-", []),
        ("generateName: train-", "generateName: ''", [("TW709", "/metadata/name")]),
        ("Never", "Always", [("TW715", "/metadata/generateName"), ("TW705", f"{IN_POD}/restartPolicy")]),
    ],
)
def test_a_generated_name_is_for_kubectl_create(tmp_path: Path, old: str, new: str, expected: Findings) -> None:
    assert sorted(said_of(tmp_path, GENERATED.replace(old, new, 1) if old else GENERATED)) == sorted(expected)


def test_what_argo_cd_syncs_needs_a_name_unless_it_is_a_hook(tmp_path: Path) -> None:
    shutil.copytree(PROJECT, tmp_path / "project")
    here = Scratch(tmp_path / "project")
    file = "dist/lab/training/runs/job.k8s.yaml"
    here.write(file, GENERATED)
    assert_ended(here.run("validate", "dist"), 1, "TW709", "`generateName` cannot be applied twice")
    here.write(file, GENERATED.replace("{generate", "{annotations: {argocd.argoproj.io/hook: PreSync}, generate"))
    assert_ended(here.run("validate", "dist"), 0, "TW715")
    here.write("manifests/other.yaml", GENERATED)
    assert_ended(here.run("validate", "--strict", "manifests/other.yaml"), 0, "note TW715")


@pytest.mark.parametrize("folder", ["dist", "dist/", "dist/lab/training"])
def test_a_dist_that_is_not_there_is_said(tmp_path: Path, folder: str) -> None:
    shutil.copytree(PROJECT, tmp_path / "project")
    assert_ended(Scratch(tmp_path / "project").run("validate", folder), 2, "`trainwright synth` writes what is in dist/")
    assert_ended(Scratch(tmp_path).run("validate", folder), 1, "TW101")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("0777", []), ("0400", []), ("0o755", []), ("511", []), ("0", []), ("null", []),
        ("777", ["TW705"]), ("512", ["TW705"]), ("-1", ["TW705"]), ("01000", ["TW705"]), ("'0777'", ["TW705"]),
        ("0_777", ["TW712"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "volume",
    [
        "configMap: {name: c, defaultMode: MODE}",
        "secret: {secretName: c, defaultMode: MODE}",
        "projected: {sources: [], defaultMode: MODE}",
        "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}, mode: MODE}]}",
        "configMap: {name: c, items: [{key: a, path: a, mode: MODE}]}",
    ],
)
def test_permissions_are_octal(tmp_path: Path, volume: str, mode: str, expected: list[str]) -> None:
    pod = POD.replace("containers", f"volumes: [{{name: v, {volume.replace('MODE', mode)}}}], containers")
    assert [code for code, _ in said_of(tmp_path, f"{JOB}  template: {{{pod}}}\n")] == expected


def test_a_decimal_that_was_meant_as_octal_gets_both_forms(tmp_path: Path) -> None:
    pod = POD.replace("containers", "volumes: [{name: v, configMap: {name: c, defaultMode: 755}}], containers")
    (tmp_path / "a.yaml").write_text(f"{JOB}  template: {{{pod}}}\n", encoding="utf-8")
    assert [it.fix for it in validate_files([tmp_path], None).findings] == ["write 493, or 0755 in octal"]


def test_elsewhere_an_octal_number_is_read_as_kubectl_does_and_said(tmp_path: Path) -> None:
    assert said_of(tmp_path, f"{JOB}  backoffLimit: 010\n  template: {{{POD}}}\n") == [("TW712", "")]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("replicas: 8, minReplicas: 1, maxReplicas: 4", "TW714"),
        ("replicas: 1, minReplicas: 2, maxReplicas: 4", "TW714"),
        ("minReplicas: 2, maxReplicas: 4", None),  # minReplicas start
        ("replicas: 4, minReplicas: 0, maxReplicas: 4", None),
        ("replicas: 3, minReplicas: 5, maxReplicas: 4", "TW711"),
    ],
)
def test_workers_of_ray_are_kept_within_their_range(tmp_path: Path, sizes: str, expected: str | None) -> None:
    text = (CASES / "ray-replicas-above-max.yaml").read_text(encoding="utf-8")
    assert [code for code, _ in said_of(tmp_path, text.replace("replicas: 8, minReplicas: 1, maxReplicas: 4", sizes))] == (
        [expected] if expected else []
    )


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{limits: {nvidia.com/gpu: , cpu: 4}}", [("TW714", "limits/nvidia.com~1gpu")]),
        ("{requests: {cpu: }, limits: {memory: ~}}", [("TW714", "requests/cpu"), ("TW714", "limits/memory")]),
        ("{requests: {nvidia.com/gpu: null}, limits: {nvidia.com/gpu: 8}}", [("TW714", "requests/nvidia.com~1gpu")]),
        ("{requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: null}}",
         [("TW714", "limits/nvidia.com~1gpu"), ("TW705", "requests/nvidia.com~1gpu")]),
        ("{requests: null, limits: null}", []),
        ("{limits: {hugepages-2Mi: , memory: 1Gi}}", [("TW714", "limits/hugepages-2Mi")]),
    ],
)  # fmt: skip
def test_an_empty_amount_is_nothing(tmp_path: Path, resources: str, expected: Findings) -> None:
    pod = POD.replace("image: 'x/y:1'", f"image: 'x/y:1', resources: {resources}")
    place = f"{IN_POD}/containers/0/resources"
    found = said_of(tmp_path, f"{JOB}  template: {{{pod}}}\n")
    assert sorted(found) == sorted((code, f"{place}/{pointer}") for code, pointer in expected)


def test_what_older_schemas_require_and_the_api_server_fills_in(tmp_path: Path) -> None:
    policy = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}"
    binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nroleRef: {kind: Role, name: a}\n"
    network = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {policyTypes: [Ingress]}\n"
    (tmp_path / "a.yaml").write_text(f"{JOB}  {policy}\n  template: {{{POD}}}\n---\n{binding}---\n{network}", encoding="utf-8")
    manifests, _ = read_manifests(tmp_path / "a.yaml")
    assert len(manifests) == 3
    for version in ("1.29", "1.31", "1.34"):
        assert [problem for it in manifests for problem in core_problems(it.data, version)] == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1, 1]}}]}",
         ["/spec/podFailurePolicy/rules/0/onExitCodes/values"]),
        ("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [0, 1]}}]}",
         ["/spec/podFailurePolicy/rules/0/onExitCodes/values"]),
        ("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: NotIn, values: [0, 1]}}]}", []),
        ("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {containerName: main, operator: In, values: [1]}}]}", []),
        ("podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1]}}]}",
         ["/spec/podFailurePolicy/rules/0/action"]),
        ("podFailurePolicy: {rules: []}\n  podReplacementPolicy: Failed", []),
        ("podReplacementPolicy: TerminatingOrFailed", []),
        ("successPolicy: {rules: [{succeededCount: 1}]}", ["/spec/successPolicy"]),
        ("completionMode: Indexed\n  successPolicy: {rules: [{succeededIndexes: '0'}]}", []),
        ("completionMode: Indexed\n  backoffLimitPerIndex: 0\n  maxFailedIndexes: 0", []),
        ("selector: {}", []),
        ("selector: {matchLabels: {batch.kubernetes.io/job-name: a}}", []),
        ("selector: {matchLabels: {app: a}}\n  manualSelector: true", ["/spec/selector/matchLabels/app"]),
    ],
)  # fmt: skip
def test_two_fields_of_a_job_decide_together(tmp_path: Path, spec: str, expected: list[str]) -> None:
    assert said_of(tmp_path, f"{JOB}  {spec}\n  template: {{{POD}}}\n") == [("TW705", place) for place in expected]


@pytest.mark.parametrize(
    ("length", "spec", "legal"),
    [(63, "completions: 4", True), (64, "completions: 4", False), (61, "completionMode: Indexed", True),
     (62, "completionMode: Indexed", False), (60, "{completionMode: Indexed, completions: 11, parallelism: 11}", True)],
)  # fmt: skip
def test_a_name_has_to_fit_its_pods(tmp_path: Path, length: int, spec: str, legal: bool) -> None:
    job = JOB.replace("name: a", f"name: {'a' * length}")
    fields = spec.strip("{}").replace(", ", "\n  ")
    assert said_of(tmp_path, f"{job}  {fields}\n  template: {{{POD}}}\n") == ([] if legal else [("TW705", "/metadata/name")])


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ("tolerations: [{operator: Exists}]", None),
        ("tolerations: [{key: a, value: b}]", None),
        ("tolerations: [{operator: Equal, value: b}]", "tolerations/0"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "tolerations/0/value"),
        ("hostNetwork: true, initContainers: [{name: i, image: x, ports: [{containerPort: 80, hostPort: 81}]}]",
         "initContainers/0/ports/0/hostPort"),
        ("hostNetwork: true, initContainers: [{name: i, image: x, ports: [{containerPort: 80, hostPort: 80}]}]", None),
        ("hostNetwork: false, initContainers: [{name: i, image: x, ports: [{containerPort: 80, hostPort: 81}]}]", None),
        ("initContainers: [{name: i, image: x, resources: {requests: {rdma/hca: 100m}, limits: {rdma/hca: 100m}}}]",
         "initContainers/0/resources/requests/rdma~1hca"),
        ("initContainers: [{name: i, image: x, resources: {limits: {cpu: 0.5, rdma/hca: 1000m}}}]", None),
    ],
)  # fmt: skip
def test_two_fields_of_a_pod_decide_together(tmp_path: Path, pod: str, place: str | None) -> None:
    found = said_of(tmp_path, f"{JOB}  template: {{{POD.replace('restartPolicy', pod + ', restartPolicy')}}}\n")
    assert found[:1] == ([("TW705", f"{IN_POD}/{place}")] if place else [])


def test_an_operator_that_takes_less_than_its_schema_says_what(tmp_path: Path) -> None:
    text = (CASES / "volcano-internal-event.yaml").read_text(encoding="utf-8").replace("PodRunning", "PodFailure")
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    findings = [it for it in validate_files([tmp_path], Path(UPSTREAM) if UPSTREAM else None).findings if it.code != "TW702"]
    assert [it.code for it in findings] == ["TW705" if UPSTREAM else "TW711"]
    assert not any(event in findings[0].fix for event in ("PodRunning", "OutOfSync", "CommandIssued"))


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ('"4"', '"2"', []), ('"4"', '"0"', ["TW711"]), ('"4"', "two", ["TW711"]), ("labels: {kueue", "labels: {other", ["TW711"]),
        ("kind: Job", "kind: Job", ["TW711"]),
    ],
)  # fmt: skip
def test_a_job_states_a_smaller_least_parallelism(tmp_path: Path, old: str, new: str, codes: list[str]) -> None:
    text = (CASES / "kueue-min-parallelism.yaml").read_text(encoding="utf-8")
    assert [code for code, _ in said_of(tmp_path, text.replace(old, new))] == codes


def test_patches_and_settings_of_a_kustomization_are_no_objects(tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": "resources: [job.yaml]\npatches: [{path: ops.yaml}, {path: part.yaml, target: {kind: Job}}]\n"
        "configurations: [kustomizeconfig.yaml]\nconfigMapGenerator: [{name: c, files: [settings.yml=values.yml]}]\n",
        "ops.yaml": "- {op: remove, path: /spec/suspend}\n",
        "part.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n",
        "kustomizeconfig.yaml": "varReference: []\n",
        "values.yml": "a: 1\n",
        "job.yaml": f"{JOB}  template: {{{POD}}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    report = validate_files([tmp_path], None)
    assert (report.objects, [it.code for it in report.findings]) == (1, ["TW715"])
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml, part.yaml]\n", encoding="utf-8")
    objects = validate_files([tmp_path / "kustomization.yaml", tmp_path / "part.yaml"], None)
    assert (objects.objects, objects.errors > 0) == (1, True)


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("name: data, ", "name: initializer, ", []),
        ("torch, namespace: team", "torch, namespace: other", ["TW714"]),
        ("torch, namespace: team", "torch", ["TW714", "TW711"]),
        ("runtimeRef: {kind: TrainingRuntime, ", "runtimeRef: {kind: ClusterTrainingRuntime, ", ["TW714"]),
        ("dataset: {", "model: {", ["TW714", "TW711"]),
    ],
)
def test_a_train_job_is_held_against_its_runtime(tmp_path: Path, old: str, new: str, codes: list[str]) -> None:
    text = (CASES / "trainer-initializer-mount.yaml").read_text(encoding="utf-8")
    assert old in text
    assert [code for code, _ in said_of(tmp_path, text.replace(old, new))] == codes


@pytest.mark.parametrize(
    ("kind", "roles", "place"),
    [
        ("JAXJob", "jaxReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: jax, image: x}]}}}}", None),
        ("JAXJob", "jaxReplicaSpecs: {Master: {replicas: 1, template: {spec: {containers: [{name: jax, image: x}]}}}}", "Master"),
        ("JAXJob", "jaxReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: a, image: x}]}}}}",
         "Worker/template/spec/containers"),
        ("PaddleJob", "paddleReplicaSpecs: {Chief: {template: {spec: {containers: [{name: paddle, image: x}]}}}}", "Chief"),
    ],
)  # fmt: skip
def test_other_kinds_of_the_training_operator_have_its_rules(tmp_path: Path, kind: str, roles: str, place: str | None) -> None:
    text = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{roles}}}\n"
    field = roles.partition(":")[0]
    assert said_of(tmp_path, text) == ([("TW711", f"/spec/{field}/{place}")] if place else [])


TERMS = "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ("tolerations: [{key: a, operator: Exists, tolerationSeconds: 30}]", "tolerations/0/tolerationSeconds"),
        ("topologySpreadConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
         "topologySpreadConstraints/0/maxSkew"),
        ("activeDeadlineSeconds: 0", "activeDeadlineSeconds"),
        (f"affinity: {{{TERMS}[]}}}}}}",
         "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"),
        (f"affinity: {{podAffinity: {{{PREFERRED}: [{{weight: 101, podAffinityTerm: {{topologyKey: a}}}}]}}}}",
         f"affinity/podAffinity/{PREFERRED}/0/weight"),
        ("volumes: [{name: v, emptyDir: {}, hostPath: {path: /a}}]", "volumes/0"),
        ("securityContext: {fsGroup: -1}", "securityContext/fsGroup"),
        ("volumes: [{name: v, hostPath: {path: /a, type: Folder}}]", "volumes/0/hostPath/type"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("head", [JOB, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n"])
def test_a_pod_that_the_api_server_refuses(tmp_path: Path, head: str, pod: str, place: str) -> None:
    found = said_of(tmp_path, f"{head}  template: {{{POD.replace('restartPolicy', pod + ', restartPolicy')}}}\n")
    assert found == [("TW705", f"{IN_POD}/{place}")]


@pytest.mark.parametrize(
    "pod",
    [
        "affinity: {nodeAffinity: {}, podAffinity: {}}, nodeSelector: {}, tolerations: [{key: a, operator: '', effect: ''}]",
        "priorityClassName: '', schedulerName: '', hostname: '', serviceAccountName: '', volumes: []",
        f"affinity: {{{TERMS}[{{matchFields: [{{key: metadata.name, operator: In, values: [node-1]}}]}}]}}}}}}",
        f"affinity: {{nodeAffinity: {{{PREFERRED}: [{{weight: 100, preference: {{matchExpressions: "
        "[{key: a, operator: Gt, values: ['4']}]}}]}, podAffinity: {"
        f"{PREFERRED}: [{{weight: 1, podAffinityTerm: {{topologyKey: a, labelSelector: {{matchLabels: {{a: b}}}}}}}}]}}}}",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 2}, "
        "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]",
        "volumes: [{name: a, hostPath: {path: /a, type: ''}}, {name: c, projected: {sources: [{configMap: {name: a}}]}}]",
        "securityContext: {runAsUser: 0, seccompProfile: {type: RuntimeDefault}, sysctls: [{name: net.ipv4.a, value: '1'}]}",
    ],
)
def test_a_pod_that_the_api_server_takes(tmp_path: Path, pod: str) -> None:
    assert said_of(tmp_path, f"{JOB}  template: {{{POD.replace('restartPolicy', pod + ', restartPolicy')}}}\n") == []


def held_by(kind: str, spec: str) -> str:
    """A Job's spec in an object that others make Jobs of."""
    jobs = f"replicatedJobs: [{{name: node, template: {{spec: {{{spec}}}}}}}]"
    versions = {"JobSet": "jobset.x-k8s.io/v1alpha2", "CronJob": "batch/v1", "ScaledJob": "keda.sh/v1alpha1"}
    held = {
        "JobSet": jobs, "CronJob": f"schedule: '@daily', jobTemplate: {{spec: {{{spec}}}}}",
        "ScaledJob": f"triggers: [], jobTargetRef: {{{spec}}}", "TrainingRuntime": f"template: {{spec: {{{jobs}}}}}",
    }  # fmt: skip
    version = versions.get(kind, "trainer.kubeflow.org/v1alpha1")
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{held[kind]}}}\n"


@pytest.mark.parametrize(
    ("kind", "code", "above"),
    [
        ("CronJob", "TW705", "/spec/jobTemplate/spec"),
        ("JobSet", "TW711", "/spec/replicatedJobs/0/template/spec"),
        ("TrainingRuntime", "TW711", "/spec/template/spec/replicatedJobs/0/template/spec"),
        ("ScaledJob", "TW711", "/spec/jobTargetRef"),
    ],
)
@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("podFailurePolicy: {rules: [{action: Ignore}]}", "podFailurePolicy/rules/0"),
        ("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [2, 1]}}]}",
         "podFailurePolicy/rules/0/onExitCodes/values"),
        ("completionMode: Indexed, completions: 1, parallelism: 1, successPolicy: {rules: []}", "successPolicy/rules"),
        ("selector: {matchLabels: {app: a}}", "selector"),
        ("completions: 1, parallelism: 1", None),
    ],
)  # fmt: skip
def test_the_rules_of_a_job_hold_wherever_it_lies(
    tmp_path: Path, kind: str, code: str, above: str, spec: str, place: str | None
) -> None:
    found = [it for it in said_of(tmp_path, held_by(kind, f"{spec}, template: {{{POD}}}")) if it[0] != "TW714"]  # no trainer
    assert found == ([(code, f"{above}/{place}")] if place else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{JOB}  template: {{{POD}}}\n", [("TW713", f"{IN_POD}/containers/0/image")]),
        ("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {template: {" + POD + "}}\n",
         [("TW713", f"{IN_POD}/containers/0/image")]),
        ("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\nspec: {template: {" + POD + "}}\n", []),
        ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
         "spec: {runtimeRef: {name: torch-distributed}, trainer: {image: 'x/y:1'}}\n", [("TW713", "/spec/trainer/image")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("image", ["<your-alias>/train:1", "{{image}}", "${IMAGE}", "REPLACE_ME"])
def test_an_image_that_is_still_a_template(tmp_path: Path, text: str, expected: Findings, image: str) -> None:
    assert said_of(tmp_path, text.replace("x/y:1", image)) == expected


def test_a_container_without_an_image(tmp_path: Path) -> None:
    pod = POD.replace(", image: 'x/y:1'", "")
    assert said_of(tmp_path, f"{JOB}  template: {{{pod}}}\n") == [("TW704", f"{IN_POD}/containers/0/image")]
    widget = "apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nmetadata: {name: a}\n"
    assert said_of(tmp_path, f"{widget}{pod}\n") == []


@pytest.mark.parametrize(
    ("stated", "meant"),
    [
        ("jobset.sigs.k8s.io/v1alpha2 JobSet", "jobset.x-k8s.io/v1alpha2"), ("jobset/v1 JobSet", "jobset.x-k8s.io/v1alpha2"),
        ("kubeflow.org/v1beta3 TFJob", "kubeflow.org/v1"), ("training.kubeflow.org/v1 PyTorchJob", "kubeflow.org/v1"),
        ("kubeflow.org/v1 PytorchJob", "kubeflow.org/v1 with kind PyTorchJob"), ("rayproject.io/v1 RayCluster", "ray.io/v1"),
        ("batch.volcano.io/v1alpha1 Job", "batch.volcano.sh/v1alpha1"),
        ("volcano.sh/v1alpha1 Job", "batch.volcano.sh/v1alpha1"), ("batch.k8s.io/v1 Job", "batch/v1"),
        ("app/v1 Deployment", "apps/v1"), ("apps/v1 Job", "batch/v1"), ("extensions/v1beta1 Deployment", "apps/v1"),
    ],
)  # fmt: skip
def test_a_group_that_nobody_serves(tmp_path: Path, stated: str, meant: str) -> None:
    version, kind = stated.split()
    (tmp_path / "a.yaml").write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n", encoding="utf-8")
    (finding,) = validate_files([tmp_path], None).findings
    assert finding.code == "TW701"
    assert finding.fix.startswith(f"write {meant}")


@pytest.mark.parametrize(
    "stated",
    ["kubeflow.org/v1beta1 Notebook", "kubeflow.org/v1 MPIJob", "training.kubedl.io/v1alpha1 TFJob", "batch.paddle.org/v1 Job",
     "kueue.x-k8s.io/v1beta1 Workload", "kueue.x-k8s.io/v1alpha1 Topology", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet",
     "serving.knative.dev/v1 Service", "app.k8s.io/v1beta1 Application", "batch.tutorial.kubebuilder.io/v1 CronJob"],
)  # fmt: skip
def test_a_group_that_somebody_may_serve(tmp_path: Path, stated: str) -> None:
    version, kind = stated.split()
    (tmp_path / "a.yaml").write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n", encoding="utf-8")
    codes = [it.code for it in validate_files([tmp_path], None).findings]
    assert "TW702" in codes
    assert "TW701" not in codes


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ("{nvidia.com/gpu: 8}", []),
        ("{nvidia.com/gpu: '0.5'}", ["/spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu"]),
        ("{rdma/hca: 100m, cpu: 500m}", ["/spec/trainer/resourcesPerNode/limits/rdma~1hca"]),
    ],
)
def test_devices_of_a_train_job_are_whole(tmp_path: Path, trainer: str, expected: list[str]) -> None:
    head = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
    spec = f"{{runtimeRef: {{name: torch-distributed}}, trainer: {{resourcesPerNode: {{limits: {trainer}}}}}}}"
    assert said_of(tmp_path, f"{head}spec: {spec}\n") == [("TW705", place) for place in expected]
