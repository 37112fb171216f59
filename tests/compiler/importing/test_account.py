"""Every leaf of an original is in the account once, and what differs is said to differ."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.fleets import fleet
from tests.compiler.public.cases import NAMES, accounts, needs_originals, originals

from trainwright.findings.locate import at, escape, tokens
from trainwright.importing.accounting.account import Account, Verdict, account
from trainwright.importing.accounting.matching import Compiled, compiled_objects
from trainwright.importing.accounting.ours import Addition
from trainwright.importing.accounting.report import to_text
from trainwright.importing.accounting.runs import Told
from trainwright.importing.accounting.side import Fate

Data = dict[str, Any]


def pointers(value: Any, pointer: str = "") -> Iterator[str]:
    """Of every leaf, by a walk of its own."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [one for key, each in inner for one in pointers(each, f"{pointer}/{escape(str(key))}")]
    yield from below or [pointer]


def assert_each_once(original: list[Data], told: list[Account]) -> None:
    assert [one["kind"] for one in original] == [one.kind for one in told]
    for manifest, one in zip(original, told, strict=True):
        found = Counter(dict.fromkeys(verdict.pointer for verdict in one.verdicts))
        assert len(found) == len(one.verdicts)
        assert {pointer.partition("#")[0] for pointer in found} == set(pointers(manifest))


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_each_leaf_of_a_public_manifest_is_in_the_account_once(name: str) -> None:
    assert_each_once(originals(name), accounts(name))


RUNS = sorted(fleet().runs)


def compiled(run: str) -> list[Compiled]:
    return compiled_objects(fleet().runs[run].compiled)


@pytest.mark.parametrize("run", RUNS)
def test_what_we_wrote_ourselves_is_the_same(run: str) -> None:
    ours = compiled(run)
    told = account([one.manifest for one in ours], ours)
    overrides = {verdict.fate for one in told for verdict in one.verdicts} - {Fate.SAME}
    assert overrides <= {Fate.OVERRIDE}
    assert not any(one.adds for one in told)
    assert_each_once([one.manifest for one in ours], told)


def bent(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else "bent"


def of(told: list[Account], number: int, pointer: str) -> list[Verdict]:
    return [verdict for verdict in told[number].verdicts if verdict.pointer.partition("#")[0] == pointer]


FREE = ("/apiVersion", "/kind", "/metadata/name")


def drawn(data: st.DataObject) -> tuple[list[Compiled], list[Any], int, str]:
    """Objects of a run, copies of them to bend, and the number and the pointer of a leaf."""
    ours = compiled(data.draw(st.sampled_from(RUNS), "run"))
    number = data.draw(st.integers(0, len(ours) - 1), "object")
    original = [copy.deepcopy(one.manifest) for one in ours]
    pointer = data.draw(st.sampled_from([one for one in pointers(original[number]) if one not in FREE]), "leaf")
    return ours, original, number, pointer


@settings(max_examples=100)
@given(st.data())
def test_a_leaf_that_is_bent_is_said_to_be(data: st.DataObject) -> None:
    ours, original, number, pointer = drawn(data)
    above, _, key = pointer.rpartition("/")
    holder = at(original[number], above)
    holder[int(key) if isinstance(holder, list) else tokens(f"/{key}")[0]] = bent(at(original[number], pointer))
    told = account(original, ours)
    assert_each_once(original, told)
    # of two words that are alike now, either may be the one that is left
    places = list(pointers(holder, above)) if isinstance(holder, list) else [pointer]
    verdicts = [verdict for one in places for verdict in of(told, number, one)]
    assert any(verdict.fate is not Fate.SAME for verdict in verdicts), verdicts
    named = tokens(pointer)[-1] in ("name", "groupName")
    assert named or any(verdict.fate in (Fate.CHANGED, Fate.LEFT_OUT) for verdict in verdicts), verdicts


@settings(max_examples=100)
@given(st.data())
def test_a_leaf_that_is_not_in_ours_is_left_out_and_one_that_only_ours_has_is_no_leaf(data: st.DataObject) -> None:
    ours, original, number, pointer = drawn(data)
    above, _, key = pointer.rpartition("/")
    holder = at(original[number], above)
    if not isinstance(holder, dict):
        return
    value = holder.pop(tokens(f"/{key}")[0])
    if data.draw(st.booleans(), "renamed"):
        holder[f"{tokens(pointer)[-1]}Bent"] = value
    told = account(original, ours)
    assert_each_once(original, told)
    moved = of(told, number, f"{above}/{key}Bent")
    assert all(verdict.fate in (Fate.CHANGED, Fate.LEFT_OUT) or verdict.at.startswith("data/") for verdict in moved), moved


def ours_of(*manifests: Data) -> list[Compiled]:
    return [Compiled(one, {}, {}) for one in manifests]


def fates(original: list[Data], *here: Data) -> dict[str, str]:
    """Place of each leaf of the first object -> what became of it."""
    told = account(original, ours_of(*here))
    assert_each_once(original, told)
    first = told[0].verdicts
    return {verdict.place: "listed" if verdict.listed else "lost" if verdict.lost else verdict.fate for verdict in first}


def job(name: str, *containers: Data, **spec: Any) -> Data:
    template = {"spec": {"containers": list(containers), **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


CONTAINERS = "spec/template/spec/containers"


def test_variables_are_known_by_their_names_and_of_two_the_last_counts() -> None:
    twice = [{"name": "A", "value": "0"}, {"name": "B", "value": "2"}, {"name": "A", "value": "1"}]
    there = job("a", {"name": "m", "env": twice})
    here = job("a", {"name": "m", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})
    said = fates([there], here)
    assert said[f"{CONTAINERS}/m/env/2/value"] == "same"
    assert said[f"{CONTAINERS}/m/env/0/value"] == "lost"
    said = fates([here], job("a", {"name": "m", "env": [{"name": "B", "value": "2"}, {"name": "AA", "value": "1"}]}))
    assert said[f"{CONTAINERS}/m/env/B/value"] == "same"
    assert said[f"{CONTAINERS}/m/env/A/value"] == "lost"


def test_containers_of_similar_names_stay_apart() -> None:
    there = job("a", {"name": "train", "image": "a", "command": ["x"]}, {"name": "trainer", "image": "b", "command": ["y"]})
    here = job("a", {"name": "trainer", "image": "b", "command": ["y"]}, {"name": "node", "image": "a", "command": ["x"]})
    said = fates([there], here)
    assert said[f"{CONTAINERS}/train/image"] == said[f"{CONTAINERS}/train/name"] == "renamed"
    assert said[f"{CONTAINERS}/trainer/image"] == "same"


def test_a_port_is_known_by_its_number_and_a_word_by_its_place() -> None:
    there = job("a", {"name": "m", "ports": [{"containerPort": 1}, {"containerPort": 2}], "command": ["a", "b", "c"]})
    here = job("a", {"name": "m", "ports": [{"containerPort": 2}, {"containerPort": 1}], "command": ["b", "a", "c"]})
    said = fates([there], here)
    assert said[f"{CONTAINERS}/m/ports/1/containerPort"] == "same"
    assert said[f"{CONTAINERS}/m/command/c (1)"] == "same"
    assert {said[f"{CONTAINERS}/m/command/{word} (1)"] for word in "ab"} == {"same", "changed"}


@pytest.mark.parametrize(("there", "here", "why"), [
    ({"command": ["python", "a.py"]}, {"command": ["python"], "args": ["a.py"]}, "the same words"),
    ({"command": ["sh", "-c", "python a.py"]}, {"command": ["python", "a.py"]}, "a shell"),
    ({"command": ["torchrun", "--nproc_per_node", "2", "a.py"]}, {"command": ["torchrun", "--nproc-per-node=2", "a.py"]},
     "written in another way"),
    ({"command": ["sh", "-c", "torchrun --nnodes=2 --master_addr=$A a.py"]}, {"command": ["sh", "-c", "torchrun a.py"]},
     "the plan says it"),
    ({"command": ["torchrun", "--nnodes=2", "a.py"]}, {"command": ["torchrun", "b.py"]}, None),
    ({"command": ["torchrun", "--max-restarts=2", "a.py"]}, {"command": ["torchrun", "a.py"]}, None),
    ({"command": ["sh", "-c", "cd /a && python a.py"]}, {"command": ["python", "a.py"]}, None),
    ({"command": ["sh", "-c", "python a.py | tee log"]}, {"command": ["sh", "-c", "python a.py"]}, None),
])  # fmt: skip
def test_a_command_that_is_written_in_another_way_is_changed_for_that_reason(there: Data, here: Data, why: str | None) -> None:
    (told,) = account([job("a", {"name": "m", **there})], ours_of(job("a", {"name": "m", **here})))
    differ = [verdict for verdict in told.verdicts if verdict.fate is not Fate.SAME and verdict.place != "metadata/name"]
    assert differ
    if why is None:
        assert not any("same" in verdict.why or "plan" in verdict.why for verdict in differ)
    else:
        assert all(verdict.fate is Fate.CHANGED and why in verdict.why for verdict in differ), differ


def test_a_slash_at_the_end_of_a_path_and_an_empty_word_say_nothing() -> None:
    mount, path = {"name": "data", "mountPath": "/data/"}, {"path": "/mnt/data/", "type": ""}
    there = job("a", {"name": "m", "volumeMounts": [mount]}, volumes=[{"name": "data", "hostPath": path}])
    ours = {"name": "data", "mountPath": "/data"}
    here = job("a", {"name": "m", "volumeMounts": [ours]}, volumes=[{"name": "data", "hostPath": {"path": "/mnt/data"}}])
    said = fates([there], here)
    assert said[f"{CONTAINERS}/m/volumeMounts//data//mountPath"] == "renamed"
    assert said["spec/template/spec/volumes/data/hostPath/path"] == "same"
    assert said["spec/template/spec/volumes/data/hostPath/type"] == "listed"


def test_elsewhere_a_slash_and_an_empty_word_say_something() -> None:
    there, here = ({"name": "m", "readinessProbe": {"httpGet": {"path": path}}} for path in ("/well/", "/well"))
    assert fates([job("a", there)], job("a", here))[f"{CONTAINERS}/m/readinessProbe/httpGet/path"] == "changed"
    there = job("a", {"name": "m"}, nodeSelector={"example.com/fast": ""})
    assert fates([there], job("a", {"name": "m"}))["spec/template/spec/nodeSelector/example.com/fast"] == "lost"
    claim: Data = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}
    said = fates([claim | {"spec": {"storageClassName": ""}}], claim | {"spec": {"accessModes": []}})
    assert said["spec/storageClassName"] == "lost", "it asks for no class, and not for the default one"


def test_what_says_nothing_does_where_ours_says_something() -> None:
    there, plain, privileged = ({"name": "m", **said} for said in (
        {"securityContext": {"privileged": False}}, {}, {"securityContext": {"privileged": True}},
    ))  # fmt: skip
    place = f"{CONTAINERS}/m/securityContext/privileged"
    assert fates([job("a", there)], job("a", plain))[place] == "listed"
    assert fates([job("a", there)], job("a", privileged))[place] == "changed"


def test_an_event_is_the_same_among_others() -> None:
    one = {"event": "PodEvicted", "action": "RestartJob"}
    there = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"policies": [one]}}
    both = {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}
    said = fates([there], there | {"spec": {"policies": [both]}})
    assert said["spec/policies/0/event"] == "renamed"
    said = fates([there], there | {"spec": {"policies": [both | {"events": ["PodFailed"]}]}})
    assert said["spec/policies/0/event"] == "changed"


@pytest.mark.parametrize(("source", "fate"), [
    ({"secret": {"secretName": "keys"}}, "listed"), ({"projected": {"sources": []}}, "listed"),
    ({"persistentVolumeClaim": {"claimName": "data"}}, "lost"), ({"hostPath": {"path": "/data"}}, "lost"),
])
def test_a_mount_of_what_the_node_writes_is_read_only_anyway(source: Data, fate: str) -> None:
    mount: Data = {"name": "v", "mountPath": "/v"}
    both = ({**mount, "readOnly": True}, mount)
    there, here = (job("a", {"name": "m", "volumeMounts": [one]}, volumes=[{"name": "v", **source}]) for one in both)
    assert fates([there], here)[f"{CONTAINERS}/m/volumeMounts//v/readOnly"] == fate


def test_files_of_a_config_map_in_their_folder() -> None:
    mount = {"name": "scripts", "mountPath": "/scripts"}
    items = [{"key": "train.py", "path": "sub/train.py"}]
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.py": "print()"}}
    there, here = (
        job(name, {"name": "m", "volumeMounts": [{**mount, "name": volume}]},
            volumes=[{"name": volume, "configMap": {"name": config_map, "items": items}}])
        for name, volume, config_map in (("a", "scripts", "code"), ("a-0", "files-0", "a-0"))
    )  # fmt: skip
    said = fates([there, code], here, code | {"metadata": {"name": "a-0"}})
    assert set(said.values()) == {"same", "renamed"}
    assert fates([code, there], here, code | {"metadata": {"name": "a-0"}})["data/train.py"] == "same"


def test_files_of_a_config_map_that_are_the_runs_own() -> None:
    mount = {"name": "scripts", "mountPath": "/scripts"}
    there = job("a", {"name": "m", "volumeMounts": [mount]}, volumes=[{"name": "scripts", "configMap": {"name": "code"}}])
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.py": "print()"}}
    mine = {"name": "spec", "mountPath": "/scripts/train.py", "subPath": "train.py", "readOnly": True}
    here = job("a-0", {"name": "m", "volumeMounts": [mine]}, volumes=[{"name": "spec", "configMap": {"name": "a-0"}}])
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-0"}, "data": {"file-0": "print()"}}
    said = fates([there, code], here, files)
    assert said["spec/template/spec/volumes/scripts/configMap/name"] == "renamed"
    assert said[f"{CONTAINERS}/m/volumeMounts//scripts/mountPath"] == "changed"
    assert fates([code, there], here, files)["data/train.py"] == "renamed"


def test_a_config_map_is_lost_that_the_original_refers_to_and_the_run_does_not() -> None:
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.py": "print()"}}
    here = job("a-0", {"name": "m"}, volumes=[{"name": "scripts", "configMap": {"name": "code"}}])
    assert set(fates([code], here).values()) == {"listed"}
    there, without = job("a", {"name": "m"}, volumes=here["spec"]["template"]["spec"]["volumes"]), job("a-0", {"name": "m"})
    assert set(fates([code, there], without).values()) == {"lost"}
    assert set(fates([code, job("a", {"name": "m"})], without).values()) == {"listed"}


def test_what_an_app_wrapper_wraps_is_held_against_the_run() -> None:
    inner = job("a", {"name": "m", "image": "a"})
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "w", "labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {"components": [{"template": inner}]},
    }  # fmt: skip
    here = job("a-0", {"name": "node", "image": "b"})
    here["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    said = fates([wrapper], here)
    assert said["metadata/labels/kueue.x-k8s.io/queue-name"] == "same"
    assert said["kind"] == "listed"
    assert said["spec/components/0/template/metadata/name"] == "renamed"
    assert said["spec/components/0/template/spec/template/spec/containers/m/image"] == "changed"


def test_a_token_is_not_repeated() -> None:
    token = "hf_" + "a" * 34
    (told,) = account(
        [job("a", {"name": "m", "env": [{"name": "HF_TOKEN", "value": token}], "args": [f"--token={token}"]})],
        ours_of(job("a", {"name": "m", "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})),
    )
    assert token not in repr(told)


@pytest.mark.parametrize("harmless", ["", "true"])
def test_not_every_value_of_such_a_name_is_a_token(harmless: str) -> None:
    there = job("a", {"name": "m", "env": [{"name": "AWS_SESSION_TOKEN", "value": harmless}]})
    (told,) = account([there], ours_of(job("a", {"name": "m"})))
    (value,) = (verdict for verdict in told.verdicts if verdict.place.endswith("value"))
    assert (value.place, value.was) == (f"{CONTAINERS}/m/env/AWS_SESSION_TOKEN/value", harmless)


def job_set(name: str, **roles: Data) -> Data:
    jobs = [{"name": role, "template": {"spec": {"template": {"spec": {"containers": [one]}}}}} for role, one in roles.items()]
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return {**kind, "metadata": {"name": name}, "spec": {"replicatedJobs": jobs}}


@pytest.mark.parametrize(("host", "fate"), [("s-0-leader-0-0", "renamed"), ("s-0-worker-0-0", None), ("s-0-leader-0-1", None)])
def test_a_host_follows_the_name_of_its_object_and_role(host: str, fate: str | None) -> None:
    there = job_set("s", leader={"name": "a", "command": ["x", "s-leader-0-0.s"]}, worker={"name": "b", "image": "b"})
    here = job_set("s-0", worker={"name": "b", "image": "b"}, node={"name": "a", "command": ["x", f"{host}.s-0"]})
    here["spec"]["replicatedJobs"][1]["name"] = "leader" if fate else "node"
    said = fates([there], here)
    place = "spec/replicatedJobs/leader/template/spec/template/spec/containers/a/command/s-leader-0-0.s (1)"
    assert said[place] == (fate or "changed")


def test_what_two_objects_of_a_run_add_for_one_reason_is_told_of_both() -> None:
    told = [
        Told(Account("Job", name, (), (Addition("needed", {field: ""}),)), "pi", ())
        for name, field in (("one", "first: 1"), ("two", "second: 2"))
    ]
    assert "adds      first: 1; second: 2 (needed)" in to_text(told)
