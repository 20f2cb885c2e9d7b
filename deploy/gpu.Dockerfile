# syntax=docker/dockerfile:1
# A runner for tests on an NVIDIA GPU, from the repository's root:
#   docker build -f deploy/gpu.Dockerfile -t gpuperf-gpu .
#   docker run --rm --gpus all --shm-size=8g gpuperf-gpu
# Bases are pinned by tag. Pin by digest what you keep: docker buildx imagetools inspect IMAGE

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY analyzers analyzers
COPY src src
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip wheel --no-deps --wheel-dir /wheels .

FROM pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime AS runner
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# git: baselines and reports say which commit was measured. gcc: what torch.compile builds with.
RUN --mount=type=cache,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \
    apt-get update && apt-get install -y --no-install-recommends gcc git libc6-dev
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# The image's own torch must stay: the constraint makes another one an error.
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 -m pip list --format=freeze | { grep '^torch==' || true; } >/tmp/torch.txt && \
    python3 -m pip install -c /tmp/torch.txt "$(echo /wheels/pytest_gpuperf-*.whl)[zstd,prometheus]"
RUN useradd --create-home --uid 10001 gpuperf
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# A user that the image does not know (docker run --user) still has a name: torch.compile asks for it.
ENV USER=gpuperf
USER 10001
WORKDIR /home/gpuperf
CMD ["gpuperf", "doctor"]
