"""How a script or a command lives: probes, what comes before SIGTERM, ports, a deadline and a time to live."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import RUN, Data, codes, command, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted, lines_without_answer
from tests.compiler.targets import CASES, on, profile_for
from tests.pages import DOCS

from trainwright.findings import CompileError
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.reading import validate_data
from trainwright.run import Run

LIFE: Data = {
    "probes": {"alive": {"http": "/well", "port": 8080, "every": "30s", "failures": 10}}, "grace": "5m",
    "pre_stop": {"command": ["drain"]}, "ports": {"dashboard": 8080}, "deadline": "2d", "ttl": "1d",
}  # fmt: skip
DEADLINES = {
    "indexed-job": "/spec", "job-set": "/spec/replicatedJobs/0/template/spec", "ray-job": "/spec", "train-job": "/spec",
    "mpi-job": "/spec/runPolicy",
}  # fmt: skip


def job_of(result: Any) -> dict[str, Any]:
    kind = CASES[result.plan.target].kind
    (job,) = [one for one in result.manifests if (one["apiVersion"].rpartition("/")[0], one["kind"]) == kind]
    return dict(job)


def at(tree: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree


@pytest.mark.parametrize("name", CASES)
def test_every_target_carries_what_it_can(name: str) -> None:
    stated = {key: value for key, value in LIFE.items() if key not in TARGETS[name].cannot_carry}
    result = compiled(on(name, **{**command("work"), **stated}), profile_for(name))
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    job = job_of(result)
    if "deadline" in stated:
        pointer = DEADLINES.get(name, "/spec/runPolicy")
        assert at(job, f"{pointer}/activeDeadlineSeconds") == 172_800
    if "ttl" in stated:
        place = at(job, "/spec/runPolicy") if "runPolicy" in job["spec"] else job["spec"]
        assert place["ttlSecondsAfterFinished"] == 86_400
    lowered = [split(tree)[0] for tree in TARGETS[name].lower(result.resolution)]
    for pod in run_pods(TARGETS[name], result.resolution, lowered):
        main = pod.found.spec["containers"][0]
        role = next((role for role in result.resolution.binding.roles if role.name == pod.role), None)
        runs = role is not None and result.resolution.binding.runs_the_work(role)
        assert ("livenessProbe" in main) == (runs and "probes" in stated)
        hooked = runs or (role is not None and result.resolution.binding.replaces_command)
        assert ("lifecycle" in main) == (hooked and "pre_stop" in stated)
        assert (8080 in [port["containerPort"] for port in main.get("ports", [])]) == (runs and "ports" in stated)


@pytest.mark.parametrize("name", CASES)
def test_what_a_target_cannot_carry_is_refused(name: str) -> None:
    said = findings(on(name, **{**command("work"), **LIFE}), profile_for(name))
    assert [one.where.pointer for one in said if one.code == "TW458"] == [f"/{field}" for field in TARGETS[name].cannot_carry]
    assert ("TW459" in [one.code for one in said]) == ("ttl" not in TARGETS[name].cannot_carry)


@pytest.mark.parametrize(("name", "hidden"), [("pytorch-job", True), ("tf-job", True), ("job-set", False)])
def test_readiness_is_refused_where_a_service_hides_pods(name: str, hidden: bool) -> None:
    both = {"probes": {"started": {"port": 8080}, "ready": {"port": 8080}}}
    said = findings(on(name, **{**command("work"), **both}), profile_for(name))
    assert [one.where.pointer for one in said if one.code == "TW458"] == (["/probes/started", "/probes/ready"] if hidden else [])


def test_a_deadline_of_a_job_set_ends_it() -> None:
    result = compiled(on("job-set", **{**command("work"), "deadline": "1h"}), profile_for("job-set"))
    rules = job_of(result)["spec"]["failurePolicy"]["rules"]
    assert rules[-1] == {"name": "deadline", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}


@pytest.mark.parametrize(("page", "begins"), [("run-file.md", "- `deadline` "), ("run-keys.md", "| `deadline` ")])
def test_pages_name_the_targets_whose_deadline_counts_anew(page: str, begins: str) -> None:
    """With each attempt."""
    (line,) = [line for line in (DOCS / page).read_text(encoding="utf-8").splitlines() if line.startswith(begins)]
    named = [target for target in TARGETS.values() if target.title in line]
    assert named == [target for target in TARGETS.values() if target.renews_deadline] != []


def test_a_trainer_of_an_older_release_has_no_deadline() -> None:
    profile = overlay(profile_for("train-job"), {"operators": {"trainer": {"version": "2.1.0"}}})
    said = findings(on("train-job", **{**command("work"), "deadline": "1h"}), profile)
    assert [one.where.pointer for one in said if one.code == "TW425"] == ["/deadline"]


def test_a_time_to_live_restarts_nothing() -> None:
    before, after, late = (compiled(command("work") | more).plan.name for more in ({}, {"ttl": "1d"}, {"deadline": "1d"}))
    assert before == after != late


def test_ports_of_the_plan_stay_its_own() -> None:
    assert codes(command("work") | {"ports": {"rendezvous": 4000}}).count("TW460") == 1
    assert codes(script("python", "x.py") | {"ports": {"mine": 4000, "again": 4000}}).count("TW460") == 1
    assert "TW460" not in codes(script("python", "x.py") | {"ports": {"mine": 4000}})


@pytest.mark.parametrize(("ports", "words"), [
    ({"ports": {"mine": 4000, "again": 4000}}, "ports mine and again are both 4000"),
    ({"ports": {"mine": 4000}, "roles": {"node": {"ports": {"mine": 4001}}}},
     "ports mine and mine have the same name in one pod"),
    ({"roles": {"node": {"ports": {"mine": 29500}}}}, "port mine (29500) is taken by port rendezvous (29500) of the plan"),
])  # fmt: skip
def test_no_two_ports_of_a_pod_are_the_same(ports: Data, words: str) -> None:
    (found,) = [one for one in findings(script("python", "x.py") | ports) if one.code == "TW460"]
    assert found.message.startswith(words)
    assert found.fix.startswith("remove")
    (found,) = [one for one in findings(script("python", "x.py") | {"ports": {"rendezvous": 4000}}) if one.code == "TW460"]
    assert found.fix == "choose another name"


def of_a_service(**ports: int) -> Data:
    service: Data = {"pods": 2, "command": ["serve"], "ports": ports}
    return on("job-set", **script("python", "x.py"), roles={"service": service})


def test_nothing_of_the_plan_listens_in_the_pods_of_a_further_role() -> None:
    watched: Data = {"monitoring": {"kind": "prometheus-operator", "namespace": "monitoring"}}
    profile = profile_for("job-set")
    assert "TW460" not in codes(of_a_service(http=8080, mine=29500), profile)
    assert "TW460" in codes(of_a_service(mine=8080, again=8080), profile), "two of its own"
    assert "TW460" in codes(of_a_service(http=8080), profile | watched), "Prometheus would ask it for metrics"
    taken = compiled(of_a_service(), profile | watched).resolution.plan.rendezvous.port
    assert "TW460" not in codes(of_a_service(mine=taken), profile | watched)


def test_on_the_nodes_network_no_two_pods_listen_on_one_port() -> None:
    namespaces: Data = {"training": {"pod_security": "privileged"}}
    profile = overlay(profile_for("job-set"), {"namespaces": namespaces})
    taken = compiled(of_a_service() | {"host_network": True}, profile).resolution.plan.rendezvous.port
    assert "TW460" in codes(of_a_service(mine=taken) | {"host_network": True}, profile)


@pytest.mark.parametrize("name", CASES.keys() - {"ray-job"})
def test_a_program_starts_where_it_was_asked_to(name: str) -> None:
    result = compiled(on(name, **overlay(command("work"), {"workload": {"working_dir": "/app"}})), profile_for(name))
    binding, where = result.resolution.binding, {}
    for pod in run_pods(TARGETS[name], result.resolution, result.manifests):
        where[pod.role] = pod.found.spec["containers"][0].get("workingDir")
    assert {where[role.name] for role in binding.roles} == {"/app"}


def test_ray_starts_its_driver_elsewhere() -> None:
    run = on("ray-job", **overlay(command("work"), {"workload": {"working_dir": "/app"}}))
    assert [one.where.pointer for one in findings(run, profile_for("ray-job"))] == ["/workload/working_dir"]


WORKER: Data = {
    "command": ["/usr/sbin/sshd", "-D", "-p", "2222"], "working_dir": "/srv", "ports": {"login": 2222}, "ready": {"port": 2222},
}  # fmt: skip


def test_the_program_of_a_role_has_ports_and_a_directory_of_its_own() -> None:
    run = on("mpi-job", **overlay(command("mpirun", "a"), {"workload": {"working_dir": "/app"}}), roles={"worker": WORKER})
    result = compiled(run, profile_for("mpi-job"))
    launcher, worker = (
        pod.found.spec["containers"][0] for pod in run_pods(TARGETS["mpi-job"], result.resolution, result.manifests)
    )
    assert (launcher["workingDir"], worker["workingDir"]) == ("/app", "/srv")
    assert "readinessProbe" not in launcher
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 2222}
    assert worker["ports"] == [{"name": "login", "containerPort": 2222, "protocol": "TCP"}]
    assert set(lines_without_answer(result)) == set()


def test_the_readiness_of_a_role_is_refused_where_a_service_hides_pods() -> None:
    run = on("pytorch-job", **command("work"), roles={"worker": {"command": ["serve"], "ready": {"port": 1}}})
    assert [one.where.pointer for one in findings(run, profile_for("pytorch-job"))] == ["/roles/worker/ready"]


def test_a_script_has_a_hook_and_the_probes_of_its_supervisor() -> None:
    run = script("python", "x.py") | {"pre_stop": {"sleep": "10s"}, "grace": "2m"}
    (pod,) = [one for one in compiled(run).manifests if one["kind"] == "Job"]
    main = pod["spec"]["template"]["spec"]["containers"][0]
    assert main["lifecycle"] == {"preStop": {"sleep": {"seconds": 10}}}
    assert main["livenessProbe"]["httpGet"]["path"] == "/livez"


@pytest.mark.parametrize(("run", "words"), [
    ({"ttl": "1d"}, "ttl is for a script or a command"),
    ({"ports": {"x": 1}}, "ports is for a script or a command"),
    (script("x") | {"probes": {"alive": {"port": 80}}}, "a script has the probes of its supervisor"),
    (command("x") | {"roles": {"node": {"ready": {"port": 80}}}}, "ready is for a program of the role's own"),
    (command("x") | {"probes": {}}, "give started, ready or alive"),
    (command("x") | {"pre_stop": {"http": "/x"}}, "give one of command, http with its port, and sleep"),
    (command("x") | {"pre_stop": {"sleep": "1m"}}, "which leaves none"),
])  # fmt: skip
def test_what_is_wrong(run: Data, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        validate_data(Run, overlay(RUN, run), "run.yaml", {})
