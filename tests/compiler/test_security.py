"""Who the processes of a pod are: what runs and profiles state, what namespaces demand, and what is left to the image."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import Data, codes, command, compiled, findings, script
from tests.compiler.findings.page import overlay
from tests.compiler.targets import profile_for
from tests.programs import needs

from trainwright.findings import CompileError
from trainwright.manifest.pods import pods_in
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.reading import validate_data
from trainwright.rendezvous.mpi import ROOT_SSHD_READ_ONLY, SSHD_FOLDER
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.security import Security

OWN = {"command": command("torchrun", "train.py"), "script": script("python", "train.py")}


def of_level(level: str, **defaults: Any) -> Data:
    """The example's cluster with a namespace of a level; its defaults replace those of the example."""
    return {"namespaces": {"training": {"pod_security": level, "security": defaults or None}}}


def pod_of(run: Data, cluster: Data) -> dict[str, Any]:
    (spec,) = [pod["spec"] for manifest in compiled(run, cluster).manifests for _, pod in pods_in(manifest)]
    return dict(spec)


def names(run: Data, cluster: Data) -> list[str]:
    return [variable["name"] for variable in pod_of(run, cluster)["containers"][0]["env"]]


@pytest.mark.parametrize("level", ["baseline", "privileged"])
@pytest.mark.parametrize("work", OWN)
def test_an_image_that_nobody_here_knows_keeps_its_own(work: str, level: str) -> None:
    pod = pod_of(OWN[work], of_level(level))
    container = pod["containers"][0]
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["automountServiceAccountToken"] is False
    assert "securityContext" not in container
    assert "HOME" not in names(OWN[work], of_level(level))
    assert "/tmp" not in [mount["mountPath"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize("work", OWN)
def test_a_restricted_namespace_wants_a_user_and_adds_no_more_than_it_demands(work: str) -> None:
    assert "TW317" in codes(OWN[work], of_level("restricted"))
    assert "TW317" in codes(OWN[work] | {"security": {"root": False}}, of_level("restricted")), "the kubelet would refuse it"
    pod = pod_of(OWN[work] | {"security": {"user": 2000}}, of_level("restricted"))
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 2000, "runAsGroup": 2000, "fsGroup": 2000, "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_the_line_to_write() -> None:
    (refused,) = [one for one in findings(OWN["command"], of_level("restricted")) if one.code == "TW317"]
    assert refused.where.pointer == "/namespace", "nothing is said of security, and the namespace asks for it"
    assert "`security: {user: 1000}`" in refused.fix
    stated = OWN["command"] | {"security": {"read_only_root": True}}
    (refused,) = [one for one in findings(stated, of_level("restricted")) if one.code == "TW317"]
    assert refused.where.pointer == "/security"


def test_an_override_may_state_the_user_too() -> None:
    run = OWN["command"] | {"overrides": {"pod": {"node": {"securityContext": {"runAsUser": 3000}}}}}
    assert "TW317" not in codes(run, of_level("restricted"))


@pytest.mark.parametrize("level", ["restricted", "baseline", "privileged"])
def test_the_trainer_is_as_strict_everywhere_and_follows_no_default(level: str) -> None:
    pod = pod_of({}, of_level(level, user=0, read_only_root=False) if level != "restricted" else of_level(level))
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }


def test_the_trainer_reads_files_as_another_user_where_the_run_says_so() -> None:
    pod = pod_of({"security": {"user": 5000, "fs_group": 6000}}, of_level("restricted"))
    context = pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (5000, 5000, 6000)
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_all_that_can_be_asked_for(snapshot: SnapshotAssertion) -> None:
    asked = {"user": 0, "fs_group": 100, "read_only_root": True, "capabilities": ["IPC_LOCK"], "privileged": True}
    result = compiled(OWN["command"] | {"security": asked}, of_level("privileged"))
    pod = pod_of(OWN["command"] | {"security": asked}, of_level("privileged"))
    rows = dict(plan_rows(result))
    assert {
        "pod": pod["securityContext"], "container": pod["containers"][0]["securityContext"],
        "plan": [rows["security"], rows["pod security"]], "fact": plan_facts(result)["pod_security"],
    } == snapshot


@pytest.mark.parametrize(("asked", "level", "place"), [
    ({"user": 0}, "restricted", "user"),
    ({"root": True}, "restricted", "root"),
    ({"user": 1000, "privileged": True}, "restricted", "privileged"),
    ({"user": 1000, "privileged": True}, "baseline", "privileged"),
    ({"user": 1000, "capabilities": ["IPC_LOCK"]}, "baseline", "capabilities"),
    ({"user": 1000, "capabilities": ["CHOWN"]}, "restricted", "capabilities"),
    ({"user": 0}, "baseline", None),
    ({"user": 1000, "capabilities": ["CHOWN"]}, "baseline", None),
    ({"user": 0, "capabilities": ["SYS_ADMIN"], "privileged": True}, "privileged", None),
])  # fmt: skip
def test_the_level_of_the_namespace_decides(asked: Data, level: str, place: str | None) -> None:
    said = findings(OWN["command"] | {"security": asked}, of_level(level))
    refused = [finding.where.pointer for finding in said if finding.code == "TW604"]
    assert refused == ([f"/security/{place}"] if place else [])


def test_the_nearest_statement_wins() -> None:
    cluster = overlay(of_level("baseline", user=1, group=10, read_only_root=True), {"security": {"user": 5, "privileged": False}})
    assert pod_of(OWN["script"], cluster)["securityContext"]["runAsUser"] == 1
    context = pod_of(OWN["script"] | {"security": {"user": 2}}, cluster)["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (2, 10, 2)
    taken_back = pod_of(OWN["script"] | {"security": {"root": True}}, cluster)["securityContext"]
    assert taken_back == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "HOME" in names(OWN["script"], cluster), "the profile's read-only root needs another home"


@pytest.mark.parametrize("security", [{"root": True}, {"user": 0}])
def test_root_keeps_the_group_of_the_volumes(security: Data) -> None:
    cluster = overlay(of_level("baseline", fs_group=5000), {"security": {"user": 2000, "group": 7}})
    assert pod_of(OWN["script"] | {"security": security}, cluster)["securityContext"]["fsGroup"] == 5000


def test_a_default_that_the_level_refuses_is_the_profile_s() -> None:
    (refused,) = [one for one in findings(OWN["command"], of_level("baseline", privileged=True)) if one.code == "TW604"]
    assert refused.where.pointer == "/namespaces/training/security/privileged"


@pytest.mark.parametrize(("security", "words"), [
    ({"user": 0, "root": False}, "user 0 is root"),
    ({"user": 7, "root": True}, "user 7 is not root"),
    ({"capabilities": ["CAP_IPC_LOCK"]}, "write IPC_LOCK"),
    ({"run_as_user": 1000}, "user"),
    ({"user": -1}, "user"),
])  # fmt: skip
def test_what_is_wrong_with_it(security: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Security, security, "run.yaml", {})
    assert words in str(refused.value)


MPI: Data = {
    "target": "mpi-job", "topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8},
}
MPI_COMMAND = MPI | command("mpirun", "--allow-run-as-root", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "python", "x.py")
MPI_OPERATOR: Data = {"operators": {"mpi-operator": {"version": "0.8.2"}}}


def mpi_of(run: Data, level: str = "baseline") -> tuple[Data, Data, Data]:
    """The MPIJob's spec, and the main containers of launcher and worker."""
    result = compiled(run, of_level(level) | MPI_OPERATOR)
    spec = next(one["spec"] for one in result.manifests if one["kind"] == "MPIJob")
    launcher, worker = (spec["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0] for role in ("Launcher", "Worker"))
    return spec, launcher, worker


@pytest.mark.parametrize("security", [{}, {"user": 0}], ids=["the image's", "root"])
def test_an_image_made_for_root_brings_its_own_sshd(security: Data) -> None:
    spec, launcher, worker = mpi_of(MPI_COMMAND | {"security": security})
    assert spec["sshAuthMountPath"] == "/root/.ssh"
    assert worker["command"][:2] == ["/bin/sh", "-c"]
    assert "exec /usr/sbin/sshd -D" in worker["command"][2]
    assert not {"ports", "readinessProbe", "securityContext"} & worker.keys(), "the image's sshd has its own port"
    assert launcher["command"][1] == "--allow-run-as-root"


@pytest.mark.parametrize("target", ["mpi-job", "train-job", "volcano-job"])
@pytest.mark.parametrize("work", ["command", "script"])
def test_sshd_of_root_has_a_folder_of_its_own_beside_read_only_files(target: str, work: str) -> None:
    own = MPI_COMMAND if work == "command" else MPI | script("python", "x.py")
    changes: Data = {"target": target, "security": {"read_only_root": True, "root": True}}
    result = compiled(own | changes, overlay(profile_for(target), of_level("baseline")))
    found = [split(tree)[0] for tree in TARGETS[target].lower(result.resolution)]
    pods = {pod.role: pod.found.spec for pod in run_pods(TARGETS[target], result.resolution, found) if pod.role}
    folders = {role: [one for one in pod["volumes"] if one["name"] == "sshd"] for role, pod in pods.items()}
    assert sorted(map(len, folders.values())) == [0, 1], "mpirun's own pod runs none"
    (worker,) = [pods[role]["containers"][0] for role, there in folders.items() if there]
    assert {"name": "sshd", "mountPath": "/run/sshd"} in worker["volumeMounts"]
    (words,) = [word for word in worker["command"] if "sshd -D" in word]
    assert words.startswith("chmod 0755 /run/sshd && ")
    assert "HostKey=/run/sshd/key" in words


def test_what_a_run_mounts_for_sshd_itself_is_left_alone() -> None:
    run = MPI_COMMAND | {"security": {"read_only_root": True}, "mounts": {"/run/sshd": {"scratch": "1Gi"}}}
    _, _, worker = mpi_of(run)
    assert [one["name"] for one in worker["volumeMounts"] if one["mountPath"] == "/run/sshd"] == ["scratch-1"]


@needs("ssh-keygen")
def test_sshd_of_root_makes_what_is_missing_and_keeps_what_is_there(tmp_path: Path) -> None:
    """The script as it is, with another folder and a sshd that only says how it was called."""
    sshd = tmp_path / "sshd"
    sshd.write_text('#!/bin/sh\necho "$@"\n')
    sshd.chmod(0o755)
    folder = tmp_path / "run"
    folder.mkdir(mode=0o777)
    shell, option, words, *rest = ROOT_SSHD_READ_ONLY
    words = words.replace("/usr/sbin/sshd", str(sshd)).replace(SSHD_FOLDER, str(folder))
    keys = set()
    for _ in range(2):  # a container that comes back finds its key
        said = subprocess.run([shell, option, words, *rest, "-p", "2222"], capture_output=True, text=True, check=True).stdout
        keys.add((folder / "key").read_text())
    assert said.split()[-4:] == ["-o", f"HostKey={folder}/key", "-p", "2222"]
    assert len(keys) == 1
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("security", [{"root": True, "fs_group": 1000}, {"user": 0, "fs_group": 1000}, {"fs_group": 1000}])
def test_keys_of_root_are_no_group_s(security: Data) -> None:
    said = findings(MPI_COMMAND | {"security": security}, of_level("baseline") | MPI_OPERATOR)
    assert [(one.code, one.where.pointer) for one in said if one.code == "TW428"] == [("TW428", "/security/fs_group")]
    assert "TW428" not in codes(MPI_COMMAND | {"security": {"user": 1000, "fs_group": 7}}, of_level("baseline") | MPI_OPERATOR)
    assert "TW428" not in codes(OWN["command"] | {"security": security}, of_level("baseline")), "no ssh, no keys"


def test_images_of_the_operator_keep_their_recipe() -> None:
    spec, _, worker = mpi_of(MPI_COMMAND | {"security": {"user": 1000}})
    assert spec["sshAuthMountPath"] == "/home/mpiuser/.ssh"
    assert worker["command"][-2:] == ["-p", "2222"]


def test_a_script_as_root_is_started_by_root_s_mpirun() -> None:
    run = MPI | script("python", "x.py") | {}
    _, launcher, worker = mpi_of(run)
    assert "--allow-run-as-root" in launcher["command"]
    assert worker["command"][-2:] == ["-p", "2222"]
    _, launcher, _ = mpi_of(run | {"security": {"user": 1000}})
    assert "--allow-run-as-root" not in launcher["command"]


def test_mpirun_of_root_has_to_be_told() -> None:
    run = MPI | command("mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "python", "x.py")
    told = {"env": {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}}

    def said(change: Data) -> bool:
        cluster = of_level("baseline") | MPI_OPERATOR
        return any("does not start as root" in one.message for one in findings(run | change, cluster))

    assert said({"security": {"user": 0}})
    assert not said({"security": {"user": 0}} | told)
    assert not said({"security": {"user": 1000}})


def test_ssh_of_another_user_has_no_keys() -> None:
    cluster = of_level("baseline") | MPI_OPERATOR
    assert "TW428" in codes(MPI_COMMAND | {"security": {"user": 2000}}, cluster)
    assert "TW428" in codes(MPI_COMMAND | {"security": {"root": False}}, cluster)


@pytest.mark.parametrize(("run", "profile", "place"), [
    ({"user": 2000}, {}, "/security/user"), ({"root": False}, {}, "/security/root"),
    ({}, {"user": 2000}, "/namespaces/training/security/user"),
])  # fmt: skip
def test_a_user_that_ssh_does_not_know_is_where_it_is_stated(run: Data, profile: Data, place: str) -> None:
    cluster = overlay(of_level("baseline", **profile), MPI_OPERATOR)
    (refused,) = [one for one in findings(MPI_COMMAND | {"security": run}, cluster) if one.code == "TW428"]
    assert refused.where.pointer == place
