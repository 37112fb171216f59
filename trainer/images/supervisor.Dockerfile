# syntax=docker/dockerfile:1
# The supervisor by itself, for pods whose image is somebody else's: a folder with its own Python, C library and loader.
#
#   docker build --file trainer/images/supervisor.Dockerfile --tag registry.example.com/trainwright-supervisor:0.2.0 .
#
# BASE_IMAGE has Debian 12 and Python 3.11, which become the folder's. A mirror, a hardened base or a newer build is yours to name,
# by digest: docs/images.md says how to look one up.
ARG BASE_IMAGE=docker.io/library/python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE_IMAGE} AS build
ARG BASE_IMAGE
ARG EXTRAS="s3"
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY trainer/images/require_digest.sh images/
RUN sh images/require_digest.sh BASE_IMAGE "$BASE_IMAGE"
RUN python -m venv /opt/trainer

COPY requirements/supervisor.txt requirements/
RUN /opt/trainer/bin/pip install --require-hashes --no-deps --requirement requirements/supervisor.txt

COPY requirements/images/*.txt requirements/images/
RUN for extra in $EXTRAS; do \
      /opt/trainer/bin/pip install --require-hashes --no-deps --requirement "requirements/images/$extra.txt" || exit 1; \
    done

# Build tools have an environment of their own, which stays behind: Debian's own Python takes no packages from pip.
COPY requirements/build.txt requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --no-deps --requirement requirements/build.txt
COPY trainer/pyproject.toml trainer/README.md trainer/
COPY trainer/trainwright_trainer trainer/trainwright_trainer
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels ./trainer \
 && /opt/trainer/bin/pip install --no-deps wheels/trainwright_trainer-*.whl \
 && /opt/trainer/bin/pip check

COPY trainer/images/collect_supervisor.py images/
RUN python images/collect_supervisor.py /opt/trainer/lib/python3.11/site-packages /supervisor

# No shell, no package manager, no user: what a pod mounts is the folder, and an init container copies it by its own Python.
FROM scratch
LABEL org.opencontainers.image.title="trainwright-supervisor" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /supervisor /
USER 1000:1000
WORKDIR /
ENTRYPOINT ["/self/lib/ld.so", "--library-path", "/self/lib", "/self/bin/python3", "-I", "-m", "trainwright_trainer"]
CMD ["--help"]
