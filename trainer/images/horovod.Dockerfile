# syntax=docker/dockerfile:1
# Horovod under mpirun: torch, Open MPI and an ssh server.
#
#   docker build --file trainer/images/horovod.Dockerfile --tag registry.example.com/trainwright-trainer-horovod:0.2.0 .
#
# BASE_IMAGE has Debian 12 and Python 3.11. A mirror, a hardened base or a newer build is yours to name, by digest: docs/images.md
# says how to look one up.
#
# For GPUs add --build-arg DEVICE=cuda. CUDA_IMAGE is the devel image of the CUDA that torch is built with: its compiler and NCCL are
# taken, and stay out of the image.
# torch comes from the default index, which is the CUDA build on Linux. Without DEVICE=cuda take the CPU build:
#   --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG BASE_IMAGE=docker.io/library/python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ARG CUDA_IMAGE=docker.io/nvidia/cuda:13.0.2-devel-ubuntu22.04@sha256:1c517d4fb96528c8999e14e6e6b16d7e2ff9ae8d194fd788d60fdc88e693e982
ARG DEVICE=cpu

FROM ${BASE_IMAGE} AS build-cpu
FROM ${CUDA_IMAGE} AS cuda

# Debian's own compiler with CUDA's: what is built on a newer distribution would ask for a newer C library than the image has.
FROM build-cpu AS build-cuda
ARG CUDA_IMAGE
WORKDIR /src
COPY trainer/images/require_digest.sh images/
RUN sh images/require_digest.sh CUDA_IMAGE "$CUDA_IMAGE"
COPY --from=cuda /usr/local/cuda /usr/local/cuda
COPY --from=cuda /usr/include/nccl*.h /usr/local/include/
COPY --from=cuda /usr/lib/*-linux-gnu/libnccl_static.a /usr/local/lib/
ENV PATH=/usr/local/cuda/bin:$PATH

FROM build-${DEVICE} AS build
ARG BASE_IMAGE
ARG DEVICE
ARG TORCH_INDEX=""
ARG EXTRAS="s3 sinks nvml"
# The GPUs to compile for: A100, H100 and H200, B200.
ARG TORCH_CUDA_ARCH_LIST="8.0 9.0 10.0"
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY trainer/images/require_digest.sh images/
RUN sh images/require_digest.sh BASE_IMAGE "$BASE_IMAGE"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake g++ libopenmpi-dev make openmpi-bin patch \
 && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/trainer

# The largest layers first: they change when a lock changes, and not when the trainer does.
COPY requirements/engines/horovod.txt requirements/torch.txt requirements/
RUN /opt/trainer/bin/pip install --require-hashes --no-deps --requirement requirements/horovod.txt
RUN /opt/trainer/bin/pip install --requirement requirements/torch.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}

# There is no wheel of it: built from the sdist whose digest is pinned, by the recipe that the tests build with.
COPY requirements/engines/sdists/horovod.txt requirements/engines/sdists/
COPY tools/engines tools/engines
RUN /opt/trainer/bin/python tools/engines/image.py horovod "$DEVICE" wheels \
 && /opt/trainer/bin/pip install --no-deps wheels/horovod-*.whl
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
LABEL org.opencontainers.image.title="trainwright-trainer-horovod" org.opencontainers.image.licenses="Apache-2.0"
# The package makes host keys as it is installed: they would be the same secret in every copy of the image.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 openmpi-bin openssh-client openssh-server \
 && rm -f /etc/ssh/ssh_host_* \
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
# sshd and ssh look for the run's keys in the home that /etc/passwd names, whatever HOME says, and a login needs a shell. There is
# no password, and `*` does not lock the account as the default would.
RUN groupadd --gid 1000 mpiuser \
 && useradd --uid 1000 --gid 1000 --home-dir /home/mpiuser --create-home --password '*' --shell /bin/sh mpiuser \
 && install --directory --owner=1000 --group=1000 --mode=0700 /home/mpiuser/.ssh
COPY trainer/images/sshd_config /home/mpiuser/.sshd_config
COPY trainer/images/ssh_config /etc/ssh/ssh_config.d/trainwright.conf
USER 1000:1000
WORKDIR /tmp

# The supervisor is PID 1: it reaps orphans and handles SIGTERM itself, so no init is needed. A job names its own command.
ENTRYPOINT ["trainwright-trainer"]
CMD ["--help"]
