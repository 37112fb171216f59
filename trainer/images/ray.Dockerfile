# syntax=docker/dockerfile:1
# Ray Train on a cluster of KubeRay.
#
#   docker build --file trainer/images/ray.Dockerfile --tag registry.example.com/trainwright-trainer-ray:0.2.0 .
#
# BASE_IMAGE has Debian 12 and Python 3.11. A mirror, a hardened base or a newer build is yours to name, by digest: docs/images.md
# says how to look one up.
#
# torch comes from the default index, which is the CUDA build on Linux; the CPU build is
#   --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG BASE_IMAGE=docker.io/library/python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE_IMAGE} AS build
ARG BASE_IMAGE
ARG TORCH_INDEX=""
ARG EXTRAS="s3 sinks nvml"
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY trainer/images/require_digest.sh images/
RUN sh images/require_digest.sh BASE_IMAGE "$BASE_IMAGE"
RUN python -m venv /opt/trainer

# The largest layers first: they change when a lock changes, and not when the trainer does.
COPY requirements/engines/ray.txt requirements/torch.txt requirements/
RUN /opt/trainer/bin/pip install --require-hashes --no-deps --requirement requirements/ray.txt
RUN /opt/trainer/bin/pip install --requirement requirements/torch.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
COPY requirements/images/*.txt requirements/images/
RUN for extra in $EXTRAS; do \
      /opt/trainer/bin/pip install --require-hashes --no-deps --requirement "requirements/images/$extra.txt" || exit 1; \
    done

# The lock is the one that the engine is tested with, so it has the tests' own packages too.
COPY trainer/images/development.txt images/
RUN /opt/trainer/bin/pip uninstall --yes --requirement images/development.txt

# Build tools have an environment of their own, which stays behind: Debian's own Python takes no packages from pip.
COPY requirements/build.txt requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --no-deps --requirement requirements/build.txt
COPY trainer/pyproject.toml trainer/README.md trainer/
COPY trainer/trainwright_trainer trainer/trainwright_trainer
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels ./trainer \
 && /opt/trainer/bin/pip install --no-deps wheels/trainwright_trainer-*.whl \
 && /opt/trainer/bin/pip check

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="trainwright-trainer-ray" org.opencontainers.image.licenses="Apache-2.0"
# KubeRay's probes ask with wget how the node is.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends wget \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# g++ where runs ask for `compile: true`, for torch compiles with it as it trains.
ARG SYSTEM_PACKAGES=""
RUN if [ -n "$SYSTEM_PACKAGES" ]; then \
      apt-get update && apt-get install --yes --no-install-recommends $SYSTEM_PACKAGES && rm -rf /var/lib/apt/lists/* /var/cache/apt/*; \
    fi
COPY --from=build /opt/trainer /opt/trainer

# Jobs run as uid 1000 with a read-only root: whatever is written goes to a mounted volume or to /tmp, an emptyDir.
ENV PATH=/opt/trainer/bin:$PATH \
    HOME=/tmp \
    TMPDIR=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN groupadd --gid 1000 trainer \
 && useradd --uid 1000 --gid 1000 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin trainer
USER 1000:1000
WORKDIR /tmp

# Under KubeRay PID 1 is Ray's: the operator starts `ray start` through bash in every pod, and our driver as a job on the head.
ENTRYPOINT ["trainwright-trainer"]
CMD ["--help"]
