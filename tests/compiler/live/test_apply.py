"""An apply against an API server that keeps state, by a real kubectl."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiler.cli.terminal import talk
from tests.compiler.live.api_server import RefusedError
from tests.compiler.live.conftest import Lab
from tests.compiler.projects import TRAINWRIGHT

LAPTOP = "charts/clusters/laptop.yaml"
DIGITS, STDLIB = "charts/runs/digits-ddp.yaml", "charts/runs/stdlib-lm.yaml"


def job(lab: Lab, run: str) -> str:
    """Name of the one Job of a run."""
    (name,) = [name for name in lab.cluster.names("jobs") if name.startswith(f"{run}-")]
    return name


def refused(lab: Lab, words: str, *arguments: str) -> None:
    """An apply that does nothing at all, and says why."""
    writes = lab.cluster.writes
    code, said = lab.run("apply", "laptop", "--context", "lab", "--yes", *arguments)
    assert (code, words in said) == (1, True), said
    assert lab.cluster.writes == writes


def test_made_edited_replaced_and_left_alone(lab: Lab) -> None:
    said = lab.apply()
    digits, stdlib = job(lab, "digits-ddp"), job(lab, "stdlib-lm")
    assert "digits-ddp: new; training starts" in said
    events = lab.take_events()
    assert events[:3] == [
        "make Namespace training", events[1], "make PersistentVolumeClaim training-checkpoints",
    ], "foundation first, and the inventory as soon as it has a namespace"
    assert events[3:6] == [f"make {kind} {digits}" for kind in ("ConfigMap", "Service", "Job")], "a Job comes after what it needs"
    assert "nothing to do, it has all 8 objects" in lab.apply()
    assert lab.take_events() == []

    lab.cluster.admit(digits)
    lab.here.edit(DIGITS, "team: vision", "team: nlp")
    lab.here.edit(STDLIB, "run: stdlib-lm\n", "run: stdlib-lm\nattempt: 2\n")
    lab.commit()
    said = lab.apply()
    assert "digits-ddp: no restart" in said
    assert "stdlib-lm: replaces a running job; training goes on from its last checkpoint" in said
    events = [one for one in lab.take_events() if "inventory" not in one]
    kept = lab.cluster.named("jobs", digits)
    assert kept is not None
    assert kept["metadata"]["labels"]["trainwright.dev/team"] == "nlp"
    assert kept["spec"]["template"]["spec"]["tolerations"][-1]["key"] == "flavor", "what Kueue wrote stays"
    new = job(lab, "stdlib-lm")
    assert events.index(f"gone Pod {stdlib}-1") < events.index(f"gone Job {stdlib}") < events.index(f"delete Service {stdlib}")
    assert events.index(f"gone Job {stdlib}") < events.index(f"make Job {new}")
    assert [one for one in events if digits in one] == [f"change {kind} {digits}" for kind in ("ConfigMap", "Service", "Job")]
    assert "nothing to do" in lab.apply()


def test_paused_resumed_and_retired(lab: Lab) -> None:
    lab.apply()
    digits, before = job(lab, "digits-ddp"), lab.cluster.names("jobs")
    lab.run("pause", "digits-ddp")
    lab.commit()
    assert "digits-ddp: paused; training waits" in lab.apply()
    assert [one for one in lab.cluster.objects if digits in one.name] == []
    assert lab.cluster.names("persistentvolumeclaims") == ["training-checkpoints"]
    lab.run("resume", "digits-ddp")
    lab.commit()
    lab.apply()
    assert lab.cluster.names("jobs") == before
    for run in ("digits-ddp", "stdlib-lm"):
        lab.run("retire", run)
    lab.commit()
    assert "2 retired" in lab.apply()
    assert lab.cluster.names("jobs") == []
    assert lab.cluster.names("persistentvolumeclaims") == ["training-checkpoints"]
    assert lab.cluster.names("namespaces") == ["kube-system", "training"]


def test_only_the_runs_that_are_named(lab: Lab) -> None:
    said = lab.apply("digits-ddp")
    assert "stdlib-lm" not in said
    assert [name.rpartition("-")[0] for name in lab.cluster.names("jobs")] == ["digits-ddp"]
    lab.here.git("rm", "--quiet", STDLIB, DIGITS)
    lab.commit()
    code, said = lab.run("apply", "laptop", "stdlib-lm", "--context", "lab", "--yes")
    assert (code, "there is no run in laptop stdlib-lm" in said) == (2, True)
    assert "digits-ddp: retired" in lab.apply("digits-ddp")
    assert lab.cluster.names("jobs") == []


def killed_at_each_step(lab: Lab, apart: int) -> tuple[int, list[str]]:
    """Applies of which each is killed after so many writes, until one has not so many left; and what happened to objects, the
    inventory aside.
    """
    lab.take_events()
    for deaths in range(40):
        process = lab.start("apply", "laptop", "--context", "lab", "--yes")
        lab.cluster.victim, lab.cluster.kill_at = process.pid, lab.cluster.writes + apart
        said, _ = process.communicate()
        if process.returncode == 0:
            return deaths, [one for one in lab.take_events() if "inventory" not in one]
        assert process.returncode == -9, said
    raise AssertionError("no apply gets any further")


@pytest.mark.slow
@pytest.mark.parametrize("apart", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_at_each_step_and_run_again(lab: Lab, apart: int) -> None:
    """Each state that an apply leaves when it dies is one from which the next one goes on, without doing anything twice."""
    deaths, events = killed_at_each_step(lab, apart)
    assert deaths >= 10 // apart, "a namespace, an inventory and what it is in the end, a claim, and three objects of each run"
    assert len(set(events)) == len(events) == 8
    old, stdlib = job(lab, "digits-ddp"), job(lab, "stdlib-lm")

    lab.here.edit(DIGITS, "run: digits-ddp\n", "run: digits-ddp\nattempt: 2\n")
    lab.run("pause", "stdlib-lm")
    lab.commit()
    deaths, events = killed_at_each_step(lab, apart)
    new = job(lab, "digits-ddp")
    assert deaths >= 11 // apart, "the inventory twice, three objects that start, six that leave"
    assert events.index(f"gone Job {old}") < events.index(f"delete Service {old}") < events.index(f"make Job {new}")
    assert len(set(events)) == len(events)
    assert [name for kind in ("jobs", "services") for name in lab.cluster.names(kind)] == [new, new]
    assert stdlib not in lab.cluster.names("configmaps")
    assert "nothing to do" in lab.apply()
    assert lab.take_events() == []


def test_what_others_made_is_not_touched(lab: Lab) -> None:
    """Another repository's run, with the labels that ours have, and another project's inventory."""
    labels = {"app.kubernetes.io/managed-by": "trainwright", "app.kubernetes.io/name": "theirs"}
    lab.cluster.put("v1", "namespaces", "", {"metadata": {"name": "training", "labels": {"kept": "yes"}}})
    for version, resource in (("batch/v1", "jobs"), ("v1", "configmaps"), ("v1", "services")):
        manifest = {"metadata": {"name": "theirs-abcd1234", "labels": labels}, "spec": {}}
        lab.cluster.put(version, resource, "training", manifest)
    before = {key: dict(one) for key, one in lab.cluster.objects.items() if key.name.startswith("theirs")}
    lab.apply()
    for run in ("digits-ddp", "stdlib-lm"):
        lab.run("retire", run)
    lab.commit()
    lab.apply()
    assert {key: dict(one) for key, one in lab.cluster.objects.items() if key.name.startswith("theirs")} == before
    assert lab.cluster.names("jobs") == ["theirs-abcd1234"]
    namespace = lab.cluster.named("namespaces", "training")
    assert namespace is not None
    assert namespace["metadata"]["labels"] == {
        "kept": "yes", "app.kubernetes.io/managed-by": "trainwright", "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }, "a namespace that is there gets what the profile says of it"


def test_an_object_of_the_same_name_that_was_made_anew_stays(lab: Lab) -> None:
    lab.apply()
    digits = job(lab, "digits-ddp")
    key = next(key for key in lab.cluster.objects if key.resource == "services" and key.name == digits)
    del lab.cluster.objects[key]
    lab.cluster.put("v1", "services", "training", {"metadata": {"name": digits}, "spec": {}})
    lab.run("pause", "digits-ddp")
    lab.commit()
    assert f"Service {digits} stays: it is not the object that was made here" in lab.apply()
    assert lab.cluster.named("services", digits) is not None
    lab.run("resume", "digits-ddp")
    lab.commit()
    refused(lab, f"Service {digits} is there already, and somebody made it, not this project")


def test_a_name_that_is_being_deleted_is_waited_for(lab: Lab) -> None:
    lab.apply()
    digits = job(lab, "digits-ddp")
    lab.cluster.stuck.add(digits)
    lab.run("pause", "digits-ddp")
    lab.commit()
    code, said = lab.run("apply", "laptop", "--context", "lab", "--yes", "--timeout", "0")
    assert code == 1
    assert f"jobs/{digits} is still being deleted after 0 s; it waits for foregroundDeletion, example.com/hold" in said
    assert lab.cluster.named("services", digits) is not None, "its pods may need it still"
    lab.run("resume", "digits-ddp")
    lab.here.edit(DIGITS, "run: digits-ddp\n", "run: digits-ddp\nattempt: 2\n")
    lab.here.edit(STDLIB, "run: stdlib-lm\n", "run: stdlib-lm\nattempt: 2\n")
    lab.commit()
    code, said = lab.run("apply", "laptop", "--context", "lab", "--yes", "--timeout", "0")
    assert code == 1
    assert "digits-ddp does not start: what was there of digits-ddp is not gone yet; apply again when it is" in said
    assert [name for name in lab.cluster.names("jobs") if name.startswith("digits")] == [digits]

    lab.here.edit(DIGITS, "attempt: 2\n", "")
    lab.commit()
    lab.cluster.stuck.clear()
    lab.take_events()
    assert f"Job {digits} is being deleted: waiting for its end" in lab.apply()
    events = lab.take_events()
    assert events.index(f"gone Job {digits}") < events.index(f"make Job {digits}")


@pytest.mark.parametrize("refusal", [
    (403, "Forbidden", 'admission webhook "v.example.com" denied the request: too many GPUs'),
    (500, "InternalError", 'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: '
                           'Post "https://v.example.svc:443/x": no endpoints available for service "v"'),
], ids=["denied", "webhook down"])  # fmt: skip
def test_one_run_that_is_refused_does_not_hold_up_another(lab: Lab, refusal: tuple[int, str, str]) -> None:
    code, said = lab.run("apply", "laptop", "--dry-run", "--context", "lab")
    assert code == 0, said
    digits = re.findall(r"Job (digits-ddp-\w+)", said)[0]
    lab.cluster.refuses[digits] = RefusedError(*refusal)
    code, said = lab.run("apply", "laptop", "--context", "lab", "--yes")
    assert code == 1
    assert "digits-ddp: kubectl apply (context lab):" in said
    assert refusal[2] in said
    assert [name.rpartition("-")[0] for name in lab.cluster.names("jobs")] == ["stdlib-lm"]
    lab.cluster.refuses.clear()
    lab.apply()
    assert digits in lab.cluster.names("jobs")


@pytest.mark.parametrize(
    ("part", "key", "tracker"),
    [
        ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD"),
        ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux"),
    ],
)
def test_what_a_gitops_controller_tracks_is_refused(lab: Lab, part: str, key: str, tracker: str) -> None:
    lab.apply()
    digits = job(lab, "digits-ddp")

    def track(stored: dict[str, dict[str, dict[str, str]]]) -> None:
        stored["metadata"][part] = {**stored["metadata"].get(part, {}), key: "runs"}

    lab.cluster.update("jobs", digits, "argocd-controller", track)
    lab.here.edit(DIGITS, "run: digits-ddp\n", "run: digits-ddp\nattempt: 2\n")
    lab.commit()
    refused(lab, f"Job {digits} is {tracker}'s ({key})")


def test_a_field_that_another_manager_has_is_never_taken(lab: Lab) -> None:
    lab.apply()

    def relabel(stored: dict[str, dict[str, dict[str, str]]]) -> None:
        stored["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"

    lab.cluster.update("namespaces", "training", "admin", relabel)
    lab.here.edit(LAPTOP, "pod_security: restricted", "pod_security: baseline")
    lab.here.run("roll", "digits-ddp", "stdlib-lm")
    lab.commit()
    code, said = lab.run("apply", "laptop", "--context", "lab", "--yes")
    assert code == 1
    assert 'conflict with "admin": .metadata.labels.pod-security.kubernetes.io/enforce' in said


def test_two_runs_of_one_name_do_not_train_in_one_directory(lab: Lab) -> None:
    labels = {"app.kubernetes.io/managed-by": "trainwright", "app.kubernetes.io/name": "digits-ddp"}
    lab.cluster.put("v1", "namespaces", "", {"metadata": {"name": "training"}})
    manifest = {"metadata": {"name": "digits-ddp-aaaaaaaa", "labels": labels}, "spec": {}}
    theirs = lab.cluster.put("batch/v1", "jobs", "training", manifest)
    refused(lab, "Job digits-ddp-aaaaaaaa is of a run called digits-ddp too, and not in this project's inventory")
    theirs["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    lab.apply()


def test_the_right_cluster(lab: Lab) -> None:
    code, said = lab.run("apply", "laptop", "--yes")
    assert code == 1
    assert f"`uid: {lab.cluster.uid}`" in said
    text = lab.here.read(LAPTOP)
    lab.here.write(LAPTOP, f"{text}uid: 00000000-0000-0000-0000-000000000000\n")
    lab.commit()
    refused(lab, f"context lab leads to the cluster {lab.cluster.uid}, and profile laptop is of 00000000")
    lab.here.write(LAPTOP, f"{text}uid: {lab.cluster.uid}\n")
    lab.commit()
    code, said = lab.run("apply", "laptop", "--yes")
    assert (code, "is taken for" in said) == (0, False), said


def test_what_is_not_reviewed_is_not_applied(lab: Lab) -> None:
    lab.here.edit(DIGITS, "epochs: 30", "epochs: 31")
    refused(lab, f"not committed: {DIGITS}")
    lab.here.git("commit", "--quiet", "--all", "--message", "edit")
    refused(lab, "TW502")
    lab.here.write("dist/laptop/training/runs/extra.k8s.yaml", "")
    refused(lab, "not committed: dist/laptop/training/runs/extra.k8s.yaml")


def test_what_is_no_project_of_a_repository_is_refused(lab: Lab) -> None:
    lab.here.git("remote", "remove", "origin")
    refused(lab, "`git remote add origin URL`")


def test_errors_of_kubectl_are_one_message(lab: Lab, tmp_path: Path) -> None:
    code, said = lab.run("apply", "laptop", "--context", "elsewhere")
    assert (code, said.count("\n")) == (3, 1)
    assert "`kubectl config get-contexts`" in said
    lab.cluster.absent.add("batch/v1")
    refused(lab, "the cluster has no Job (batch/v1)")
    (tools := tmp_path / "tools").mkdir()
    (tools / "git").symlink_to(str(shutil.which("git")))
    lab.environment["PATH"] = str(tools)
    code, said = lab.run("apply", "laptop", "--context", "lab")
    assert (code, "kubectl is needed to talk to a cluster, and is not on PATH" in said) == (3, True), said


def test_it_asks_and_nobody_who_cannot_answer(lab: Lab) -> None:
    code, said = lab.run("apply", "laptop")
    assert (code, "--yes" in said.splitlines()[-1]) == (2, True)
    command = [str(TRAINWRIGHT), "apply", "laptop"]
    code, said = talk(command, lab.here.root, [("Do it?", "n")], lab.environment | {"TERM": "dumb"})
    assert (code, lab.cluster.writes) == (1, 0)
    code, said = talk(command, lab.here.root, [("Do it?", "y")], lab.environment | {"TERM": "dumb"})
    assert code == 0, said
    assert len(lab.cluster.names("jobs")) == 2


def test_two_who_apply_at_once_do_not_lose_what_was_made(lab: Lab) -> None:
    """An inventory that is older than the stored one is not written over it."""
    lab.apply("digits-ddp")
    (name,) = [name for name in lab.cluster.names("configmaps") if name.startswith("trainwright-inventory")]
    program = (
        "from trainwright.live.kubectl import Kubectl\n"
        "from trainwright.apply.inventory import Inventory\n"
        "old = Inventory('git.example.com/research/runs', 'laptop', 'training', {}, '1')\n"
        f"assert old.name == '{name}'\n"
        "Kubectl('lab', 'training').apply(old.manifest)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], env=lab.environment, capture_output=True, text=True, check=False)
    assert "the object has been modified" in ended.stderr
    stored = lab.cluster.named("configmaps", name)
    assert stored is not None
    assert "run.digits-ddp" in stored["data"]
