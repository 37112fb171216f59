"""What an apply decides, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.apply.before import in_the_way
from trainwright.apply.inventory import Entry, Inventory, Made
from trainwright.apply.plan import Gone, Plan, Wanted, plan, without_theirs
from trainwright.apply.work import Apply
from trainwright.live.kubectl import Kubectl, KubectlError, Reason, Resource
from trainwright.manifest.kinds import ObjectKey
from trainwright.project.record import RunRecord, record_text
from trainwright.review.side import Side

PLACE = ("git.example.com/a/b", "lab", "training")
EMPTY = Inventory(*PLACE)


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one-aaaaaaaa", "namespace": "training"},
        "spec": {"template": {"spec": {"tolerations": []}}, **spec},
    }  # fmt: skip


def test_an_inventory_reads_what_it_writes() -> None:
    made = {"": Made("c0", ()), "one": Made("c1", (Entry("batch/v1", "Job", "one-aaaaaaaa", "u1"), Entry("v1", "Service", "s")))}
    inventory = Inventory("p", "lab", "training", made)
    stored = {"metadata": {"resourceVersion": "7"}, "data": inventory.manifest["data"]}
    assert Inventory("p", "lab", "training").read(stored) == Inventory("p", "lab", "training", made, "7")
    assert Inventory("p", "lab", "training").read(stored).manifest["metadata"]["resourceVersion"] == "7"
    names = {Inventory(project, cluster, "training").name for project in "pq" for cluster in ("lab", "west")}
    assert len(names) == 4, "one for each project and each profile"


@pytest.mark.parametrize(("ttl", "uid", "again"), [(600, "u1", False), (600, "", True), (None, "u1", True)])
def test_what_deleted_itself_is_not_started_again(ttl: int | None, uid: str, again: bool) -> None:
    manifest = EMPTY.marked(job(**({"ttlSecondsAfterFinished": ttl} if ttl else {})))
    inventory = Inventory(*PLACE, {"one": Made("c", (Entry("batch/v1", "Job", "one-aaaaaaaa", uid),))})
    found = plan(inventory, [Wanted("one", manifest)], {}, {"one"}, whole=True)
    assert (len(found.make), len(found.ended)) == ((1, 0) if again else (0, 1))


def test_runs_that_save_in_one_place_are_known_whatever_their_names_are() -> None:
    def side(**folders: str) -> Side:
        facts = {"cluster": "lab", "namespace": "training", "mounts./out.claim": "shared"}
        texts = {f"charts/lock/{run}.yaml": record_text(RunRecord(identity="x", file="y", facts={**facts, "checkpoints": folder}))
                 for run, folder in folders.items()}
        return Side("", dict.fromkeys(texts, ""), Path(), None, {path: text.encode() for path, text in texts.items()})

    base, head = side(old="/out/a", other="/out/b"), side(new="/out/a", old="/out/c")
    assert in_the_way(base, head, ["new"]) == {"new": ["old"]}
    assert in_the_way(base, head, ["old"]) == {"old": []}


def managed(manager: str, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_what_others_have_written_since_is_not_sent() -> None:
    manifest = job(parallelism=2)
    manifest["metadata"]["labels"] = {"team": "b"}
    manifest["spec"]["template"]["spec"] |= {
        "tolerations": [{"key": "ours"}], "containers": [{"name": "trainer", "image": "a", "env": [{"name": "A", "value": "1"}]}],
    }
    taken: dict[str, Any] = {'k:{"name":"trainer"}': {"f:env": {'k:{"name":"A"}': {"f:value": {}}}}}
    pod = {"f:tolerations": {}, "f:containers": taken}
    variable: dict[str, Any] = {'k:{"name":"A"}': {".": {}, "f:value": {}}}
    container = {'k:{"name":"trainer"}': {".": {}, "f:image": {}, "f:env": variable}}
    ours = {"f:spec": {"f:parallelism": {}, "f:template": {"f:spec": {"f:containers": container}}}}
    theirs = {"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:parallelism": {}, "f:template": {"f:spec": pod}}}
    live = {"metadata": {"managedFields": [managed("trainwright", "Apply", ours), managed("kueue", "Update", theirs)]}}
    sent = without_theirs(manifest, live)
    expected = job(parallelism=2)
    expected["metadata"] = manifest["metadata"]
    expected["spec"]["template"]["spec"] = {"containers": manifest["spec"]["template"]["spec"]["containers"]}
    assert sent == expected, "tolerations are Kueue's, what both have is ours, and labels are sent as they are"
    assert without_theirs(manifest, {"metadata": {}}) == manifest


def test_another_of_its_name_is_not_removed() -> None:
    inventory = Inventory(*PLACE, {"one": Made("c", (Entry("batch/v1", "Job", "one-aaaaaaaa", "u1"),))})
    live = {ObjectKey.of(job()): {**job(), "metadata": {**job()["metadata"], "uid": "u2"}}}
    found = plan(inventory, [], live, {"one"}, whole=True)
    assert (found.remove, len(found.notes)) == ([], 1)
    live[ObjectKey.of(job())]["metadata"]["uid"] = "u1"
    assert len(plan(inventory, [], live, {"one"}, whole=True).remove) == 1
    assert plan(inventory, [], live, (), whole=False).remove == [], "a run that this is not about"


@pytest.mark.parametrize(("owner", "metadata", "line"), [
    (EMPTY.name, {}, "batch/v1 Job one-aaaaaaaa u1"), ("another", {}, ""),
    (EMPTY.name, {"deletionTimestamp": "2026-11-26T08:00:00Z"}, "batch/v1 Job one-aaaaaaaa -"),
])  # fmt: skip
def test_what_an_interrupted_apply_made_is_known_on(
    owner: str, metadata: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an apply that is about other runs."""
    inventory = Inventory(*PLACE, {"one": Made("", (Entry("batch/v1", "Job", "one-aaaaaaaa"),))})
    marks = {"annotations": {"trainwright.dev/inventory": owner}, "uid": "u1", **metadata}
    live = {ObjectKey.of(job()): {**job(), "metadata": {**job()["metadata"], **marks}}}
    monkeypatch.setattr(Kubectl, "apply", lambda _, manifest: {"metadata": {"resourceVersion": "2"}})
    work = Apply(Kubectl("lab"), Plan(), inventory, live, {}, "c", {}, 0, print)
    work.settle()
    assert work.inventory.data.get("run.one", "") == (f"commit \n{line}\n" if line else "")


@pytest.mark.parametrize(("entries", "refused"), [((Entry("batch/v1", "Job", "one-aaaaaaaa"),), 0), ((), 1)])
def test_an_edit_replaces_what_an_interrupted_apply_made(entries: tuple[Entry, ...], refused: int) -> None:
    """Its uid was not written down; it is no workload of somebody else's."""
    labels = {"app.kubernetes.io/managed-by": "trainwright", "app.kubernetes.io/name": "one"}
    there, edited = EMPTY.marked(job()), job()
    there["metadata"] |= {"uid": "u1", "labels": labels}
    edited["metadata"]["name"] = "one-bbbbbbbb"
    inventory = Inventory(*PLACE, {"one": Made("", entries)})
    found = plan(inventory, [Wanted("one", EMPTY.marked(edited))], {ObjectKey.of(there): there}, {"one"}, whole=True)
    assert (len(found.refused), len(found.remove)) == (refused, 1 - refused)


def test_what_was_not_gone_in_time_is_started_again_when_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Job with a ttl that an apply removes, and that goes after it, did not end by itself."""
    there = EMPTY.marked(job(ttlSecondsAfterFinished=600))
    wanted = Wanted("one", {**there, "metadata": dict(there["metadata"])})
    there["metadata"]["uid"] = "u1"
    inventory = Inventory(*PLACE, {"one": Made("c", (Entry("batch/v1", "Job", "one-aaaaaaaa", "u1"),))})
    written: list[Inventory] = []

    def wait(*_: object) -> None:
        written.append(work.inventory)
        raise KubectlError(Reason.STUCK, "still being deleted")

    monkeypatch.setattr(Kubectl, "apply", lambda _, manifest: {"metadata": {"resourceVersion": "2"}})
    monkeypatch.setattr(Kubectl, "delete", lambda *_: None)
    monkeypatch.setattr(Kubectl, "wait_until_gone", wait)
    resources, live = {("batch/v1", "Job"): Resource("jobs", True)}, {ObjectKey.of(there): there}
    work = Apply(Kubectl("lab"), Plan(remove=[Gone("one", there)]), inventory, live, resources, "c", {}, 0, lambda _: None)
    assert len(work()) == 1
    for left in (*written, work.inventory):
        assert len(plan(left, [], live, {"one"}, whole=True).remove) == 1, "it is still known"
        assert plan(left, [wanted], {}, {"one"}, whole=True).make == [wanted]
