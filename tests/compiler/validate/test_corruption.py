"""Valid objects, spoilt in one place: each is refused, and the finding points to the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.validate.samples import (
    UPSTREAM,
    Data,
    drop,
    names,
    pointers,
    problems,
    put,
    sample,
    schema_at,
    schema_of,
)

from trainwright.findings.locate import at, escape
from trainwright.validate import Catalogue
from trainwright.validate.crd import Schema
from trainwright.validate.custom import completed

NONE = Catalogue()
WRONG: dict[str, list[Any]] = {
    "string": [7, 1.5, True, ["x"], {"x": "y"}],
    "integer": ["7", 1.5, True, [1], {"x": 1}],
    "number": ["7", True, [1], {"x": 1}],
    "boolean": ["true", 1, [True], {"x": True}],
    "array": ["x", 7, True, {"x": 1}],
    "object": ["x", 7, True, ["x"]],
}
"""Type -> values of other types."""


@pytest.mark.parametrize("name", names(custom=False))
def test_the_samples_of_own_kinds_are_valid(name: str) -> None:
    assert problems(sample(name), NONE) == []


JOB = "/spec/template/spec"
OWN = [
    ("ConfigMap", "/data", [], "TW705", "/data"),
    ("ConfigMap", "/data/run.json", 5, "TW705", "/data/run.json"),
    ("ConfigMap", "/dat", {}, "TW703", "/dat"),
    ("ConfigMap", "/metadata/labels/app", "two words", "TW705", "/metadata/labels/app"),
    ("ConfigMap", "/metadata/labels/-x", "y", "TW705", "/metadata/labels/-x"),
    ("ConfigMap", "/metadata/annotations", {"a b": "c"}, "TW705", "/metadata/annotations/a b"),
    ("ConfigMap", "/metadata/label", {}, "TW703", "/metadata/label"),
    ("ConfigMap", "/metadata/name", "Settings", "TW709", "/metadata/name"),
    ("ConfigMap", "/metadata/namespace", "a.b", "TW709", "/metadata/namespace"),
    ("ConfigMap", "/metadata/name", None, "TW709", "/metadata/name"),
    ("ConfigMap", "/kind", "Configmap", "TW701", "/kind"),
    ("ConfigMap", "/kind", None, "TW709", "/kind"),
    ("ConfigMap", "/apiVersion", "v1/", "TW709", "/apiVersion"),
    ("ConfigMap", "/apiVersion", "apps/v1", "TW701", "/kind"),
    ("Service", "/metadata/name", "1st", "TW709", "/metadata/name"),
    ("Service", "/spec/ports/0/port", 70000, "TW705", "/spec/ports/0/port"),
    ("Service", "/spec/ports/1/name", "rendezvous", "TW706", "/spec/ports/1"),
    ("Service", "/spec/ports/1", {"port": 9400}, "TW704", "/spec/ports/1/name"),
    ("Service", "/spec/type", "Headless", "TW705", "/spec/type"),
    ("Job batch/v1", "/spec/completions", "2", "TW705", "/spec/completions"),
    ("Job batch/v1", "/spec/completions", -1, "TW705", "/spec/completions"),
    ("Job batch/v1", "/spec/completions", 2**31, "TW705", "/spec/completions"),
    ("Job batch/v1", "/spec/completionMode", "indexed", "TW705", "/spec/completionMode"),
    ("Job batch/v1", "/spec/completionMode", "NonIndexed", "TW705", "/spec/backoffLimitPerIndex"),
    ("Job batch/v1", "/spec/podFailurePolicy/rules/0/action", "Restart", "TW705", "/spec/podFailurePolicy/rules/0/action"),
    ("Job batch/v1", "/spec/podFailurePolicy/rules/0/onPodConditions/0", {}, "TW704",
     "/spec/podFailurePolicy/rules/0/onPodConditions/0/type"),
    ("Job batch/v1", f"{JOB}/restartPolicy", "Always", "TW705", f"{JOB}/restartPolicy"),
    ("Job batch/v1", f"{JOB}/restartPolicy", "OnFailure", "TW705", "/spec/podFailurePolicy"),
    ("Job batch/v1", f"{JOB}/containers", [], "TW705", f"{JOB}/containers"),
    ("Job batch/v1", f"{JOB}/containers/0/name", "Trainer", "TW705", f"{JOB}/containers/0/name"),
    ("Job batch/v1", f"{JOB}/containers/0/imagePullPolicy", "Sometimes", "TW705", f"{JOB}/containers/0/imagePullPolicy"),
    ("Job batch/v1", f"{JOB}/containers/0/command", "python -m train", "TW705", f"{JOB}/containers/0/command"),
    ("Job batch/v1", f"{JOB}/containers/0/env/0/value", 1, "TW705", f"{JOB}/containers/0/env/0/value"),
    ("Job batch/v1", f"{JOB}/containers/0/env/0/vaule", "1", "TW703", f"{JOB}/containers/0/env/0/vaule"),
    ("Job batch/v1", f"{JOB}/containers/0/ports/0/containerPort", 0, "TW705", f"{JOB}/containers/0/ports/0/containerPort"),
    ("Job batch/v1", f"{JOB}/containers/0/ports/0/name", "a-name-that-is-too-long", "TW705", f"{JOB}/containers/0/ports/0/name"),
    ("Job batch/v1", f"{JOB}/containers/0/resources/limits/memory", "1GiB", "TW705",
     f"{JOB}/containers/0/resources/limits/memory"),
    ("Job batch/v1", f"{JOB}/containers/0/resources/requests/cpu", "600m", "TW705", f"{JOB}/containers/0/resources/requests/cpu"),
    ("Job batch/v1", f"{JOB}/containers/0/resources/limits/nvidia.com~1gpu", 2, "TW705",
     f"{JOB}/containers/0/resources/requests/nvidia.com~1gpu"),
    ("Job batch/v1", f"{JOB}/containers/0/volumeMounts/0/name", "scripts", "TW705", f"{JOB}/containers/0/volumeMounts/0/name"),
    ("Job batch/v1", f"{JOB}/containers/0/volumeMounts/0/mountPath", "/dev/shm", "TW706", f"{JOB}/containers/0/volumeMounts/1"),
    ("Job batch/v1", f"{JOB}/volumes/0/name", "shm", "TW706", f"{JOB}/volumes/1"),
    ("Job batch/v1", f"{JOB}/volumes/0/emptyDir", {}, "TW705", f"{JOB}/volumes/0"),
    ("Job batch/v1", f"{JOB}/initContainers", [{"name": "trainer", "image": "x"}], "TW706", f"{JOB}/initContainers/0/name"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pointer", "value", "code", "place"), OWN)
def test_a_spoilt_object_of_an_own_kind(name: str, pointer: str, value: Any, code: str, place: str) -> None:
    data = sample(name)
    put(data, pointer, value)
    assert (code, place) in found_in(data, NONE)


@pytest.mark.parametrize(
    "pointer", ["/spec/completions", f"{JOB}/restartPolicy", f"{JOB}/containers", f"{JOB}/containers/0/name"]
)
def test_a_missing_field_of_a_job(pointer: str) -> None:
    data = sample("Job batch/v1")
    drop(data, pointer)
    assert pointer in {place for _, place in found_in(data, NONE)}


def found_in(data: Data, catalogue: Catalogue | None = None) -> set[tuple[str, str]]:
    from trainwright.objects.metadata import identity_problems

    said = list(identity_problems(data)) or problems(data, catalogue)
    assert all(problem.message and problem.fix for problem in said)
    return {(problem.code, problem.pointer) for problem in said}


@given(data=st.data(), name=st.sampled_from(names(custom=False)))
def test_an_unknown_field_anywhere_in_an_own_kind(data: st.DataObject, name: str) -> None:
    spoilt = sample(name)
    maps = ("data", "labels", "annotations", "selector", "limits", "requests")
    places = [it for it in pointers(spoilt) if isinstance(at(spoilt, it), dict) and it.rpartition("/")[2] not in maps]
    place = data.draw(st.sampled_from(places))
    put(spoilt, f"{place}/notAField", data.draw(st.sampled_from([1, "x", {}, []])))
    assert ("TW703", f"{place}/notAField") in found_in(spoilt, NONE)


# Custom kinds: the same by what their schemas say.

if UPSTREAM:
    CUSTOM = names(custom=True)

    def typed(schema: Schema | None) -> bool:
        return schema is not None and schema.get("type") in WRONG and not schema.get("x-kubernetes-int-or-string")

    def places_in(name: str, wanted: Callable[[Schema | None], bool]) -> list[str]:
        """Places of a sample whose schema is of a kind; the metadata has none in a CRD."""
        manifest = sample(name)
        schema = schema_of(manifest)
        return [it for it in pointers(manifest) if it and not it.startswith("/metadata") and wanted(schema_at(schema, it))]

    @pytest.mark.parametrize("name", CUSTOM)
    def test_the_samples_of_custom_kinds_are_valid(name: str) -> None:
        assert problems(sample(name)) == []

    def closed(schema: Schema | None) -> bool:
        """Whether a mapping takes only the fields that its schema names."""
        open_keys = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
        return schema is not None and schema.get("type") == "object" and not any(schema.get(key) for key in open_keys)

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_an_unknown_field_anywhere(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        place = data.draw(st.sampled_from(["", "/metadata", *places_in(name, closed)]))
        put(spoilt, f"{place}/notAField", data.draw(st.sampled_from([1, "x", {"a": [1]}, [], True])))
        assert found_in(spoilt) == {("TW703", f"{place}/notAField")}

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_a_value_of_another_type_anywhere(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        place = data.draw(st.sampled_from([it for it in places_in(name, typed) if it not in ("/kind", "/apiVersion")]))
        schema = schema_at(schema_of(spoilt), place)
        assert schema is not None
        put(spoilt, place, data.draw(st.sampled_from(WRONG[schema["type"]])))
        assert ("TW705", place) in found_in(spoilt)

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_a_required_field_that_is_missing(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        schema = schema_of(spoilt)
        required = [
            f"{place}/{escape(key)}"
            for place in ["", *places_in(name, lambda found: found is not None)]
            for key in (schema_at(schema, place) or {}).get("required", ())
            if key in (at(spoilt, place) or ()) and "default" not in (schema_at(schema, f"{place}/{escape(key)}") or {})
        ]
        if not required:
            return
        place = data.draw(st.sampled_from(required))
        drop(spoilt, place)
        filled_in = at(completed(spoilt), place) is not None
        assert filled_in or ("TW704", place) in found_in(spoilt)

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_a_value_that_is_no_choice(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        places = places_in(name, lambda schema: schema is not None and "enum" in schema and schema.get("type") == "string")
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        put(spoilt, place, f"{at(spoilt, place)}x")
        assert ("TW705", place) in found_in(spoilt)

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_an_item_that_is_there_twice(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        places = places_in(name, lambda schema: schema is not None and schema.get("x-kubernetes-list-type") in ("map", "set"))
        places = [place for place in places if at(spoilt, place)]
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        items = at(spoilt, place)
        items.append(items[0])
        assert ("TW706", f"{place}/{len(items) - 1}") in found_in(spoilt)

    @given(data=st.data(), name=st.sampled_from(CUSTOM))
    def test_a_number_out_of_range(data: st.DataObject, name: str) -> None:
        spoilt = sample(name)
        places = places_in(name, lambda schema: schema is not None and schema.get("format") in ("int32", "int64"))
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        put(spoilt, place, data.draw(st.sampled_from([2**63, -(2**63) - 1])))
        assert ("TW705", place) in found_in(spoilt)

    SPOILT = [
        ("PyTorchJob", "/apiVersion", "kubeflow.org/v2", "TW701", "/apiVersion"),
        ("PyTorchJob", "/spec/nprocPerNode", 8, "TW705", "/spec/nprocPerNode"),
        ("PyTorchJob", "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/limits/memory", "8GiB", "TW705",
         "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/limits/memory"),
        ("TFJob", "/spec/tfReplicaSpecs/Chief/restart", "Never", "TW703", "/spec/tfReplicaSpecs/Chief/restart"),
        ("MPIJob", "/apiVersion", "kubeflow.org/v1", "TW701", "/apiVersion"),
        ("MPIJob", "/spec/mpiImplementation", "Open MPI", "TW705", "/spec/mpiImplementation"),
        ("JobSet", "/spec/failurePolicy/rules/0/name", "0full", "TW711", "/spec/failurePolicy/rules/0/name"),
        ("JobSet", "/spec/startupPolicy", {"startupPolicyOrder": "InOrder"}, "TW707", "/spec"),
        ("JobSet", "/spec/failurePolicy/restartStrategy", "Restart", "TW705", "/spec/failurePolicy/restartStrategy"),
        ("TrainJob", "/metadata/name", "train.1", "TW707", ""),
        ("TrainJob", "/metadata/name", "t" * 64, "TW707", ""),
        ("TrainJob", "/spec/trainer/numProcPerNode", 0, "TW707", "/spec/trainer/numProcPerNode"),
        ("TrainJob", "/spec/managedBy", "me", "TW707", "/spec/managedBy"),
        ("TrainJob", "/spec/initializer", {"dataset": {"storageUri": "no-uri"}}, "TW707", "/spec/initializer/dataset/storageUri"),
        ("TrainingRuntime", "/spec/mlPolicy/jax", {}, "TW707", "/spec/mlPolicy"),
        ("RayJob", "/spec/deletionStrategy", {"onSuccess": {"policy": "DeleteSelf"}}, "TW707", "/spec/deletionStrategy"),
        ("RayJob", "/spec/backoffLimit", -1, "TW711", "/spec/backoffLimit"),
        ("PodGroup scheduling.x-k8s.io/v1alpha1", "/spec/minMember", 0, "TW705", "/spec/minMember"),
        ("PodGroup scheduling.volcano.sh/v1beta1", "/spec/networkTopology/mode", "firm", "TW705", "/spec/networkTopology/mode"),
        ("LocalQueue", "/spec/clusterQueue", "GPUs", "TW705", "/spec/clusterQueue"),
        ("ResourceFlavor", "/metadata/namespace", "training", "TW709", "/metadata/namespace"),
        ("ResourceFlavor", "/spec/nodeLabels", None, "TW707", "/spec"),
        ("ResourceFlavor", "/spec/tolerations/0/operator", "Equals", "TW707", "/spec/tolerations"),
        ("ResourceFlavor", "/spec/tolerations/0/value", "true", "TW707", "/spec/tolerations"),
        ("Topology", "/spec/levels/0/nodeLabel", "kubernetes.io/hostname", "TW707", "/spec/levels"),
        ("ClusterQueue", "/spec/resourceGroups/0/coveredResources", ["cpu"], "TW707", "/spec/resourceGroups/0"),
        ("ClusterQueue", "/spec/cohortName", None, "TW707", "/spec"),
        ("PodMonitor", "/spec/podMetricsEndpoints/0/interval", "15 seconds", "TW705", "/spec/podMetricsEndpoints/0/interval"),
        ("PodMonitor", "/spec/podMetricsEndpoints/0/relabelings/0/action", "keepAll", "TW705",
         "/spec/podMetricsEndpoints/0/relabelings/0/action"),
        ("PrometheusRule", "/spec/groups/0/rules/0/for", "five minutes", "TW705", "/spec/groups/0/rules/0/for"),
        ("PrometheusRule", "/spec/groups/0/rules/0/expr", {}, "TW705", "/spec/groups/0/rules/0/expr"),
    ]  # fmt: skip

    @pytest.mark.parametrize(("name", "pointer", "value", "code", "place"), SPOILT)
    def test_a_spoilt_object_of_a_custom_kind(name: str, pointer: str, value: Any, code: str, place: str) -> None:
        data = sample(name)
        put(data, pointer, value)
        assert (code, place) in found_in(data)
