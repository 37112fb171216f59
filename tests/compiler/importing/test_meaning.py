"""An import changes no meaning in silence: who meets whom, what comes first, how often it is tried, and what is secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from tests.compiler.importing.test_accounts import told
from tests.compiler.importing.test_bring import FETCHING, ON_A_RUNTIME, STEPS, TOKEN, brought, only

from trainwright.compile import compile_run
from trainwright.findings import CompileError
from trainwright.importing.accounting.account import Verdict
from trainwright.importing.read import Source
from trainwright.importing.secrets import HIDDEN, shown
from trainwright.reading import validate_data
from trainwright.rules.secrets import secrets_in
from trainwright.run import Run

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCY"  # noqa: S105 - of no form, but for the name of its variable


def verdicts(text: str) -> dict[str, Verdict]:
    """Place -> what became of it."""
    return {verdict.place: verdict for one in told(Source("given.yaml", text)) for verdict in one.account.verdicts}


def test_a_runtime_with_a_secret_in_plain_text_is_no_file_of_the_project() -> None:
    text = ON_A_RUNTIME.replace("PATCH", "{}").replace('{name: PLATFORM, value: "yes"}', f"{{name: HF_TOKEN, value: {TOKEN}}}")
    found = brought(text)
    (run,) = found.runs
    assert TOKEN not in found.profile_text + run.text + json.dumps(found.runtimes)
    assert run.run["env"]["HF_TOKEN"] == {"secret": "on-it-secrets", "key": "HF_TOKEN"}
    assert [name for name, _ in run.hidden] == ["HF_TOKEN"]
    assert "spec.template.spec.replicatedJobs[0]" in run.dropped[0].why
    assert TOKEN not in repr(told(Source("given.yaml", text)))


def test_a_secret_of_an_initializer_is_read_from_a_secret() -> None:
    text = FETCHING.replace("{name: RETRIES, value: '3'}", f"{{name: SECRET_ACCESS_KEY, value: {SECRET}}}")
    run = only(text)
    reference = {"secret": "reads-secrets", "key": "SECRET_ACCESS_KEY"}
    assert run.run["initializer"]["dataset"]["env"] == {"SECRET_ACCESS_KEY": reference}
    line = next(number for number, line in enumerate(text.splitlines(), 1) if SECRET in line)
    assert [(name, where.line) for name, where in run.hidden] == [("SECRET_ACCESS_KEY", line)]
    assert SECRET not in run.text


RAY = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: ray}
spec:
  entrypoint: python t.py
  runtimeEnvYAML: "env_vars: {WANDB_API_KEY: SECRET, LEVEL: info}"
  rayClusterSpec:
    rayVersion: 2.52.0
    headGroupSpec:
      template: {spec: {containers: [{name: ray-head, image: 'rayproject/ray:2.52.0',
                                      resources: {limits: {cpu: 2, memory: 8Gi}}}]}}
    workerGroupSpecs:
    - groupName: workers
      replicas: 2
      numOfHosts: HOSTS
      template: {spec: {containers: [{name: ray-worker, image: 'rayproject/ray:2.52.0',
                                      resources: {limits: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}}]}}
"""


def ray(hosts: int = 1) -> str:
    return RAY.replace("SECRET", SECRET).replace("HOSTS", str(hosts))


def submitted() -> str:
    """The same job, whose submitter states what it submits."""
    job = yaml.safe_load(ray())
    entry, packages = (job["spec"].pop(field) for field in ("entrypoint", "runtimeEnvYAML"))
    words = [f"--runtime-env-json={json.dumps(yaml.safe_load(packages))}", "--", *entry.split()]
    submitter = {"name": "submitter", "image": "quay.io/kuberay/submitter:v1.5.1", "command": ["/submitter"], "args": words}
    job["spec"]["submitterPodTemplate"] = {"spec": {"restartPolicy": "Never", "containers": [submitter]}}
    text: str = yaml.safe_dump(job)
    return text


def test_what_a_submitter_submits_is_the_work() -> None:
    run = only(submitted())
    assert run.run["workload"] == {"kind": "command", "command": ["python", "t.py"]}
    assert not [verdict for verdict in verdicts(submitted()).values() if verdict.lost]


@pytest.mark.parametrize("job", [ray, submitted])
def test_a_secret_of_rays_runtime_env_is_a_variable_of_the_pods(job: Callable[[], str]) -> None:
    run = only(job())
    assert run.run["env"] == {"WANDB_API_KEY": {"secret": "ray-secrets", "key": "WANDB_API_KEY"}}
    assert run.run["topology"]["runtime_env"] == {"env_vars": {"LEVEL": "info"}}
    assert [name for name, _ in run.hidden] == ["WANDB_API_KEY"]
    assert SECRET not in repr(told(Source("given.yaml", job()))) + run.text


def test_secrets_that_a_command_gives_its_variables_are_read_from_a_secret() -> None:
    key, jobs = "0123456789abcdef" * 2, list(yaml.safe_load_all(STEPS))
    (container,) = jobs[0]["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"]
    starts = "torchrun --nnodes=2 train.py"
    container |= {"command": ["bash", "-c", f"export WANDB_API_KEY={key} DB_PASSWORD='{SECRET}'; {starts}"], "args": []}
    run = only(yaml.safe_dump_all(jobs))
    assert run.run["workload"]["command"][-1].startswith("export WANDB_API_KEY=$(SECRET_1) DB_PASSWORD='$(SECRET_2)'; ")
    assert run.run["env"] == {name: {"secret": "steps-secrets", "key": name} for name in ("SECRET_1", "SECRET_2")}
    assert key not in run.text
    assert SECRET not in run.text


@pytest.mark.parametrize(("pointer", "value", "said"), [
    ("/topology/runtime_env/env_vars/WANDB_API_KEY", SECRET, HIDDEN),
    ("/initializer/dataset", {"env": {"API_KEY": SECRET}}, HIDDEN),
    ("/mounts/~1data", {"claim": "a"}, "{'claim': 'a'}"),
])  # fmt: skip
def test_what_is_left_out_is_shown_unless_it_is_secret(pointer: str, value: Any, said: str) -> None:
    assert shown(pointer, value) == said


def test_secrets_are_found_by_their_form_and_by_the_names_of_variables() -> None:
    pod = {"env": [{"name": "LEVEL", "value": "info"}, {"name": "DB_PASSWORD", "value": SECRET}], "args": [f"--token={TOKEN}"]}
    assert list(secrets_in({"pods": [pod]})) == ["/pods/0/env/1/value", "/pods/0/args/0"]


def test_a_run_may_not_tell_an_initializer_a_secret() -> None:
    run = only(FETCHING)
    run.run["initializer"]["dataset"]["env"] = {"SECRET_ACCESS_KEY": SECRET}
    with pytest.raises(CompileError) as failed:
        compile_run(validate_data(Run, run.run, "run.yaml", {}), run.compiled.cluster)
    assert [(one.code, one.where.pointer) for one in failed.value.findings if one.severity.value == "error"] == [
        ("TW409", "/initializer/dataset/env/SECRET_ACCESS_KEY"),
    ]


SWEEP = """
apiVersion: batch/v1
kind: Job
metadata: {name: sweep}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: t, image: 'torch:2', command: [COMMAND, t.py], resources: {limits: {nvidia.com/gpu: 8}}}]
"""


@pytest.mark.parametrize(("command", "kind"), [
    ("torchrun, --nproc_per_node=8", "independent"),
    ("torchrun, --nnodes=1, --nproc_per_node=8", "independent"),
    ("torchrun, --standalone, --nproc_per_node=8", "independent"),
    ("accelerate, launch, --num_processes=8", "independent"),
    ("torchrun, --nnodes=4, --nproc_per_node=8, --rdzv_backend=c10d, --rdzv_endpoint=sweep-0:29500", "ddp"),
    ("torchrun, --nproc_per_node=8, --master_addr=sweep-0", "ddp"),
])  # fmt: skip
def test_pods_whose_launchers_know_of_no_others_train_alone(command: str, kind: str) -> None:
    assert only(SWEEP.replace("COMMAND", command)).run["topology"]["kind"] == kind


def test_pods_with_addresses_meet() -> None:
    text = SWEEP.replace("COMMAND", "torchrun").replace("restartPolicy", "subdomain: sweep\n      restartPolicy")
    assert only(text).run["topology"]["kind"] == "ddp"


def steps(**waits: list[dict[str, str]]) -> dict[str, str]:
    """Role -> when it starts, in the order of the run, of a JobSet whose Jobs wait for each other so."""
    (job_set,) = yaml.safe_load_all(STEPS)
    jobs = job_set["spec"]["replicatedJobs"]
    for job in jobs:
        job.pop("dependsOn", None)
        job |= {"dependsOn": waits[job["name"]]} if job["name"] in waits else {}
    return {name: role.get("starts", "with") for name, role in only(yaml.safe_dump(job_set)).run["roles"].items()}


def test_jobs_come_in_the_order_in_which_they_wait_for_each_other() -> None:
    chain = steps(work=[{"name": "driver", "status": "Complete"}], driver=[{"name": "fetch", "status": "Complete"}])
    assert list(chain.items()) == [("fetch", "first"), ("driver", "first")]
    back = steps(work=[{"name": "fetch", "status": "Complete"}], fetch=[{"name": "driver", "status": "Ready"}])
    assert list(back.items()) == [("driver", "before"), ("fetch", "first")]


def test_a_job_that_waits_for_the_end_of_the_nodes_is_told() -> None:
    text = STEPS.replace("  - name: driver\n", "  - name: driver\n    dependsOn: [{name: work, status: Complete}]\n")
    text = text.replace("command: [work]", "command: [work], resources: {limits: {nvidia.com/gpu: 4}}")
    assert "starts" not in only(text).run["roles"]["driver"]
    assert verdicts(text)["spec/replicatedJobs/driver/dependsOn/work/status"].lost


def test_retries_that_a_cluster_shows_are_those_of_the_run() -> None:
    (job_set,) = yaml.safe_load_all(STEPS)
    job_set["spec"]["failurePolicy"] = {"maxRestarts": 0, "restartStrategy": "Recreate"}
    job_set["metadata"] |= {"uid": "0a", "resourceVersion": "7"}
    assert only(yaml.safe_dump(job_set)).run["restarts"] == 0


def test_hosts_of_a_replica_are_nodes() -> None:
    found = brought(ray(hosts=4))
    assert found.runs[0].run["topology"]["nodes"] == 8
    (warning,) = found.notes
    assert (warning.code, warning.where.line) == ("TW717", 16)
    assert warning.message == "the 4 hosts of a replica become replicas, which are numbered from 0 to 7"


@pytest.mark.parametrize("device", ["aws.amazon.com/neuron", "google.com/tpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"])
def test_the_job_that_computes_trains(device: str) -> None:
    text = STEPS.replace("dependsOn: [{name: fetch, status: Complete}]", "x: 1").replace(
        "command: [work]", f"command: [work], resources: {{requests: {{{device}: 4}}}}"
    )
    run = brought(text).runs[0].run
    assert (run["workload"]["command"], run["topology"]["gpus_per_node"]) == (["work"], 4)


VOLCANO = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: v}
spec:
  minAvailable: 2
  schedulerName: volcano
  policies: [{event: PodEvicted, action: RestartJob}, {event: PodFailed, action: TerminateJob}]
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: 'a:1', command: [python, t.py], ports: [{containerPort: 8265, hostPort: 8265}],
                      resources: {limits: {cpu: 1, memory: 1Gi}}}]
"""


def test_a_failure_that_ends_a_volcano_job_ends_the_run() -> None:
    assert only(VOLCANO).run["restarts"] == 0
    assert "restarts" not in only(VOLCANO.replace("TerminateJob", "RestartJob")).run


def test_what_has_no_place_in_ours_is_lost_and_not_explained_away() -> None:
    found = verdicts(VOLCANO)
    lost = {place for place, verdict in found.items() if verdict.lost}
    assert {"spec/policies/1/action", "spec/policies/1/event"} <= lost
    assert "spec/tasks/worker/template/spec/containers/c/ports/8265/hostPort" in lost
