"""What an import says of the files that it was given: each object as it stands there, and how much of it stays as it is."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from tests.compiler.importing.test_account import assert_each_once
from tests.compiler.public.cases import NAMES, counts, needs_originals, original_text

from trainwright.importing.accounting.account import native
from trainwright.importing.accounting.report import to_json, to_text
from trainwright.importing.accounting.runs import Told, accounts_of
from trainwright.importing.bring import bring
from trainwright.importing.read import Source, read
from trainwright.validate.crd import Catalogue
from trainwright.validate.manifests import manifests_in


def told(*sources: Source) -> list[Told]:
    found = accounts_of(bring(read(sources), "imported"), sources, Catalogue())
    objects = [one.data for source in sources for one in manifests_in(source.text, source.name)[0]]
    assert_each_once(objects, [one.account for one in found])
    return found


@cache
def public(name: str) -> list[Told]:
    return told(Source(f"{name}.yaml", original_text(name)))


@needs_originals
@pytest.mark.parametrize("name", NAMES)
def test_a_public_manifest_stays_what_it_is(name: str) -> None:
    assert native(counts([one.account for one in public(name)])) >= 0.84
    assert all(one.run for one in public(name))


@needs_originals
def test_most_of_all_public_manifests_is_native() -> None:
    found = sum((counts([one.account for one in public(name)]) for name in NAMES), Counter[str]())
    assert native(found) >= 0.94
    assert not found["override"]


STORED = """
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: got, namespace: default, uid: 8b0c, resourceVersion: "12", creationTimestamp: "2026-01-01T00:00:00Z",
             labels: {job-name: got}}
  spec:
    completions: 1
    parallelism: 1
    suspend: false
    manualSelector: false
    selector: {matchLabels: {batch.kubernetes.io/controller-uid: 8b0c}}
    template:
      metadata: {creationTimestamp: null, labels: {controller-uid: 8b0c}}
      spec:
        containers: [{name: c, image: 'pt:2', command: [python, t.py], terminationMessagePolicy: File}]
        restartPolicy: Never
        dnsPolicy: ClusterFirst
        terminationGracePeriodSeconds: 30
  status: {active: 1}
"""


def test_what_a_server_wrote_is_on_the_closed_list() -> None:
    (one,) = told(Source("got.yaml", STORED))
    listed = {verdict.place for verdict in one.account.verdicts if verdict.listed}
    assert {"status/active", "metadata/uid", "spec/suspend", "spec/template/spec/dnsPolicy"} <= listed
    assert "spec/template/spec/terminationGracePeriodSeconds" in listed
    assert not [verdict for verdict in one.account.verdicts if verdict.lost]


TWO = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a.json: '{}'}
---
apiVersion: batch/v1
kind: Job
metadata: {name: one}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'a:1', command: [python, a.py]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: two}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: 'a:1', command: [python, b.py], volumeMounts: [{name: s, mountPath: /s}], imagePullPolicy: Sometimes}
      volumes: [{name: s, configMap: {name: settings}}]
"""


def test_an_object_goes_with_the_run_that_refers_to_it_and_a_finding_with_its_object() -> None:
    settings, one, two = told(Source("two.yaml", TWO))
    assert (settings.run, one.run, two.run) == ("two", "one", "two")
    assert one.findings == ()
    assert [finding.where.line for finding in two.findings if "Sometimes" in finding.message] == [20]
    written = to_json([settings, one, two])
    assert [entry["run"] for entry in written] == [settings.run, one.run, two.run]
    assert set(written[0]["leaves"]) == {"same", "renamed", "changed", "override", "left_out"}


def test_the_text_begins_with_what_is_lost() -> None:
    text = to_text(told(Source("two.yaml", TWO.replace("imagePullPolicy: Sometimes", "env: [{name: a-b, value: c}]"))))
    first, second, *_ = text.partition("two:")[2].splitlines()
    assert "values as they are" in first
    assert second.strip().startswith("LOST")


AROUND = """
apiVersion: batch/v1
kind: Job
metadata: {name: pair, namespace: lab}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    metadata: {name: ignored, labels: {app: pair}}
    spec:
      restartPolicy: Never
      subdomain: pairs
      initContainers: [{name: fetch, image: 'busybox:1', command: [sh, -c, 'true']}]
      containers:
      - name: c
        image: 'pt:2'
        command: [python, /code/t.py, --peer=pair-1.pairs]
        env: [{name: LEADER, value: 'pair-0.pairs.lab.svc:1234'}, {name: OTHER, value: pair-0.example.com}]
        volumeMounts: [{name: code, mountPath: /code}]
      volumes: [{name: code, configMap: {name: code}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code, namespace: lab}
data: {t.py: "connect('pair-0.pairs')", u.py: "print()"}
---
apiVersion: v1
kind: Service
metadata: {name: pairs, namespace: lab}
spec: {clusterIP: None, selector: {app: pair}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: lab}
spec: {selector: {app: pair}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: etcd, namespace: lab}
spec: {selector: {app: etcd}, ports: [{port: 2379}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: etcd, namespace: lab}
spec: {selector: {matchLabels: {app: etcd}}, template: {spec: {containers: [{name: etcd, image: 'etcd:3'}]}}}
"""


def test_hosts_of_the_originals_pods_are_those_of_the_runs_and_one_in_a_file_is_told() -> None:
    job, code, *_ = told(Source("around.yaml", AROUND))
    by_place = {verdict.place.rpartition("/containers/")[2]: verdict for verdict in job.account.verdicts}
    assert by_place["c/command/--peer=pair-1.pairs (1)"].fate == "renamed"
    assert by_place["c/env/LEADER/value"].now == "$(RUN_NAME)-0.$(RUN_NAME).lab.svc:1234"
    assert {by_place[f"c/env/{name}/value"].fate for name in ("LEADER", "OTHER")} == {"renamed"}  # as the container is
    first, second = (verdict for verdict in code.account.verdicts if verdict.place.startswith("data/"))
    assert first.lost
    assert "names hosts that nothing has any more" in first.why
    assert not second.lost


BY_NAME = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: meets, namespace: lab}
spec:
  slotsPerWorker: 1
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          imagePullPolicy: Always
          containers:
          - name: c
            image: 'mpi:5'
            command: [mpirun, --allow-run-as-root, -np, '2', -x, MASTER_ADDR, -x, MASTER_PORT, /train.sh]
            env: [{name: MASTER_ADDR, value: meets-worker-0}, {name: MASTER_PORT, value: '6002'}]
    Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: 'mpi:5'}]}}}
"""


def test_where_ranks_of_mpi_meet_is_a_pod_of_the_run() -> None:
    """By its name alone, too."""
    (job,) = told(Source("given.yaml", BY_NAME))
    by_place = {verdict.place.rpartition("/env/")[2]: verdict for verdict in job.account.verdicts if "/env/" in verdict.place}
    assert by_place["MASTER_ADDR/value"].now == "$(RUN_NAME)-worker-0"
    assert {verdict.fate for verdict in by_place.values()} == {"renamed"}


@pytest.mark.parametrize("path", ["/ckpt/meets-worker-0", "--run-name=meets-worker-0", "s3://bucket/meets-worker-0/x"])
def test_a_short_name_is_a_host_only_where_ranks_are_told_one(path: str) -> None:
    (job,) = told(Source("given.yaml", BY_NAME.replace("/train.sh]", f"/train.sh, '{path}']")))
    (word,) = [one for one in job.account.verdicts if one.was == path]
    assert path in word.now


def test_what_stands_where_a_list_should_is_no_unknown_field() -> None:
    """The API server refuses it, and does not drop it."""
    text = BY_NAME.replace("imagePullPolicy: Always", "tolerations: {key: a, operator: Exists}")
    (job,) = told(Source("given.yaml", text))
    assert {one.listed for one in job.account.verdicts if "/tolerations/" in one.pointer} == {False}


def test_a_field_that_its_kind_does_not_have_is_on_the_closed_list() -> None:
    (job,) = told(Source("given.yaml", BY_NAME))
    (policy,) = [one for one in job.account.verdicts if one.pointer.endswith("/spec/imagePullPolicy")]
    assert (policy.listed, policy.lost) == (True, False)
    assert policy.why == "its kind has no such field, and nothing reads it"


def test_amounts_that_the_import_chose_have_a_reason_of_their_own() -> None:
    job, *_ = told(Source("around.yaml", AROUND))
    chosen = next(one for one in job.account.adds if one.why.startswith("the import chose it"))
    assert set(chosen.fields.values()) != set()
    assert all(field.startswith("initContainers/fetch/resources/") for field in chosen.fields)


def test_objects_that_are_no_part_of_a_run_stay_and_a_service_of_its_pods_is_lost_with_them() -> None:
    _, _, pairs, web, etcd, deployment = told(Source("around.yaml", AROUND))
    assert not any(verdict.lost for one in (pairs, etcd, deployment) for verdict in one.account.verdicts)
    assert {verdict.why for verdict in deployment.account.verdicts} == {"it carries no run, and stays as it is"}
    assert all(verdict.listed for one in (etcd, deployment) for verdict in one.account.verdicts)
    assert all(verdict.lost for verdict in web.account.verdicts)


BESIDE = """
apiVersion: batch/v1
kind: Job
metadata: {name: alone}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: 'pt:2', command: [python, t.py], volumeDevices: [{name: d, devicePath: /dev/x}]}]
      volumes: [{name: d, persistentVolumeClaim: {claimName: named}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-another}
data: {a: b}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: named}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_what_no_pod_of_the_original_names_is_no_part_of_the_run_and_what_one_names_is_lost_with_it() -> None:
    _, other, named = told(Source("beside.yaml", BESIDE))
    assert {verdict.why for verdict in other.account.verdicts} == {"nothing of the run names it, and it stays as it is"}
    assert all(verdict.listed for verdict in other.account.verdicts)
    assert all(verdict.lost for verdict in named.account.verdicts)
