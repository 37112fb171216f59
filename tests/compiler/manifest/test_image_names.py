"""Images that nobody can have: templates and placeholders that were left in, and what is no reference at all."""

from __future__ import annotations

import pytest

from trainwright.manifest.limits import image_problem, image_template

LEFT_IN = [
    "<your-alias>/train:1", "{{ .Values.image }}", "repo/img:{{ .Values.tag }}", "${IMAGE}", "$IMAGE", "repo/img:$TAG",
    "$(IMAGE)",
    "repo/img:${TAG:-latest}", "REPLACE_ME", "registry.example.com/REPLACE_ME", "repo/app:REPLACE_ME", "repo/app:TAG",
    "repo/a:VERSION",
    "repo/app:IMAGE_TAG", "your-registry/your-image:latest", "docker.io/yourusername/train", "YOUR_REGISTRY/train:1",
    "[IMAGE]", "{image}",
    "__IMAGE__", "@IMAGE@", "%IMAGE%", "xxxx.dkr.ecr.us-east-1.amazonaws.com/a:1", "changeme", "change-me/train",
    "placeholder:latest",
    "gcr.io/your-project/a", "ACCOUNT.dkr.ecr.REGION.amazonaws.com/a:1", "nvcr.io/nvidia/pytorch:xx.yy-py3", "a/b:TODO",
    "IMAGE:TAG",
]  # fmt: skip
NO_REFERENCE = ["a b", "x/y:", "x/y:1:2", "...", "us-docker.pkg.dev/PROJECT_ID/r/i:1", " x/y:1"]
REAL = [
    "x/y:1", "ubuntu", "nvcr.io/nvidia/pytorch:24.01-py3", f"a/b@sha256:{'a' * 64}", f"a/b:1@sha512:{'b' * 128}",
    "localhost:5000/a/b:v1",
    "123456789012.dkr.ecr.us-east-1.amazonaws.com/a:latest", "a/b__c:1", "a/b--c:1", "todo:1", "quay.io/org/with_under:V1.0_RC1",
    "public.ecr.aws/x6/y:1", "ghcr.io/xxx-team/a:1", "a/replacement:1", "a/changelog:1", "MyRegistry.io/a:1",
    "a/b:latest-TAG", "a/your:1",
    "gcr.io/p/tagger:TAGGED", "gcr.io/k8s-staging-jobset/pytorch-resnet:latest",
]  # fmt: skip


@pytest.mark.parametrize("reference", LEFT_IN)
def test_a_template_that_nothing_replaces(reference: str) -> None:
    assert image_template(reference) == image_problem(reference) is not None


@pytest.mark.parametrize("reference", NO_REFERENCE)
def test_no_reference(reference: str) -> None:
    said = image_problem(reference)
    assert said is not None
    assert "InvalidImageName" in said[0]


@pytest.mark.parametrize("reference", REAL)
def test_an_image_that_there_may_be(reference: str) -> None:
    assert image_problem(reference) is None
