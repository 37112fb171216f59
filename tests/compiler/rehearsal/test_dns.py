"""ClusterDns resolve as a headless Service makes them, and the others are told with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compiler.rehearsal.stage import JOB, Manifest, container_of, manifests, of_kind

from trainwright.rehearsal.networks.dns import ClusterDns, Unresolvable
from trainwright.rehearsal.networks.network import Loopback
from trainwright.rehearsal.stated.objects import find_objects

PROBE = {"httpGet": {"port": "http"}}


def names(edit: Callable[[list[Manifest]], object] = lambda found: None) -> ClusterDns:
    found = manifests("", pods=3)
    edit(found)
    return ClusterDns(find_objects(found), Loopback())


def with_selector(selector: dict[str, str]) -> ClusterDns:
    return names(lambda found: of_kind(found, "Service")["spec"].update(selector=selector))


def reason(found: str | Unresolvable) -> str:
    assert isinstance(found, Unresolvable)
    return found.reason


@pytest.mark.parametrize("ending", ["", ".training", ".training.svc", ".training.svc.cluster.local"])
def test_every_length_of_a_pod_s_name_resolves(ending: str) -> None:
    assert names().resolve(f"{JOB}-2.{JOB}{ending}") == "127.64.0.3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{JOB}-0.{JOB}", "127.64.0.1"),
        (f"tcp://{JOB}-1.{JOB}:29500/x", "tcp://127.64.0.2:29500/x"),
        (f"--hosts={JOB}-0.{JOB},{JOB}-1.{JOB}.training", "--hosts=127.64.0.1,127.64.0.2"),
        (f'{{"host": "{JOB}-0.{JOB}.training.svc.cluster.local."}}', '{"host": "127.64.0.1"}'),
        (f"{JOB}", f"{JOB}"),
        (f"/logs/{JOB}-0.{JOB}", f"/logs/{JOB}-0.{JOB}"),
        (f"{JOB}-0", f"{JOB}-0"),
        (f"x{JOB}-0.{JOB}", f"x{JOB}-0.{JOB}"),
    ],
)
def test_names_in_text_become_addresses(text: str, expected: str) -> None:
    assert names().rewrite(text) == expected


def test_a_name_that_looks_like_a_pod_s_is_found_in_text() -> None:
    assert [one.name for one in names().unresolvable(f"a {JOB}-3.{JOB} b {JOB}-0.other c {JOB}-0.log d rank0.{JOB}:1")] == [
        f"{JOB}-3.{JOB}", f"{JOB}-0.other", f"rank0.{JOB}",
    ]


def test_an_index_that_no_pod_has() -> None:
    assert f"they are {JOB}-0 to {JOB}-2" in reason(names().resolve(f"{JOB}-3.{JOB}"))
    assert "no pod has the host name" in reason(names().resolve(f"{JOB}-01.{JOB}"))


def test_a_service_that_is_not_there() -> None:
    assert f"which is missing (Services beside the Job: {JOB})" in reason(names().resolve(f"{JOB}-0.other"))


def test_a_service_in_another_namespace() -> None:
    found = names(lambda found: of_kind(found, "Service")["metadata"].update(namespace="other")).resolve(f"{JOB}-0.{JOB}")
    assert "which is in namespace other" in reason(found)


def test_a_name_in_another_namespace() -> None:
    assert "names of the Service end in .training.svc.cluster.local" in reason(names().resolve(f"{JOB}-0.{JOB}.other"))


def test_a_selector_with_another_value() -> None:
    found = with_selector({"batch.kubernetes.io/job-name": "other"}).resolve(f"{JOB}-0.{JOB}")
    assert f"it wants batch.kubernetes.io/job-name=other, and the label is {JOB}" in reason(found)


def test_a_selector_with_a_label_that_the_pods_lack() -> None:
    assert "the pods have no label training" in reason(with_selector({"training": "x"}).resolve(f"{JOB}-0.{JOB}"))


def test_a_selector_for_one_index() -> None:
    found = with_selector({"batch.kubernetes.io/job-completion-index": "0"})
    assert found.resolve(f"{JOB}-0.{JOB}") == "127.64.0.1"
    assert "the label is 1" in reason(found.resolve(f"{JOB}-1.{JOB}"))


def test_another_subdomain_and_none() -> None:
    def with_subdomain(subdomain: str) -> ClusterDns:
        return names(lambda found: of_kind(found, "Job")["spec"]["template"]["spec"].update(subdomain=subdomain))

    assert "subdomain is other" in reason(with_subdomain("other").resolve(f"{JOB}-0.{JOB}"))
    assert "subdomain is not set" in reason(with_subdomain("").resolve(f"{JOB}-0.{JOB}"))


def test_a_service_with_an_address_of_its_own() -> None:
    found = names(lambda found: of_kind(found, "Service")["spec"].pop("clusterIP"))
    assert "is not headless" in reason(found.resolve(f"{JOB}-0.{JOB}"))


def test_pods_that_are_hidden_until_they_are_ready() -> None:
    def hide(found: list[Manifest]) -> None:
        of_kind(found, "Service")["spec"]["publishNotReadyAddresses"] = False

    def hide_and_probe(found: list[Manifest]) -> None:
        hide(found)
        container_of(found)["readinessProbe"] = PROBE

    assert names(hide).resolve(f"{JOB}-0.{JOB}") == "127.64.0.1"
    assert "before they are ready" in reason(names(hide_and_probe).resolve(f"{JOB}-0.{JOB}"))


def test_a_bare_host_name() -> None:
    assert "only in that pod" in reason(names().resolve(f"{JOB}-0"))
