# syntax=docker/dockerfile:1
# A runner for CPU CI: counts, overlap over gloo, memory. From the repository's root:
#   docker build -f deploy/cpu.Dockerfile -t gpuperf-cpu .
#   docker run --rm -v "$PWD:/work" gpuperf-cpu pytest tests/perf --gpuperf-device=cpu
# The base is pinned by tag. Pin by digest what you keep: docker buildx imagetools inspect IMAGE

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY analyzers analyzers
COPY src src
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS runner
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# g++: what torch.compile builds with on a CPU. git: baselines and reports say which commit it was.
RUN --mount=type=cache,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \
    apt-get update && apt-get install -y --no-install-recommends g++ git
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install torch==2.13.0 --index-url "$TORCH_INDEX"
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 -m pip install "$(echo /wheels/pytest_gpuperf-*.whl)[zstd,prometheus]"
RUN useradd --create-home --uid 10001 gpuperf && install -d -o gpuperf /work
# Counts of a baseline are those of as many threads; hosted runners have two.
ENV OMP_NUM_THREADS=2
# A user that the image does not know (docker run --user) still has a name: torch.compile asks for it.
ENV USER=gpuperf
USER 10001
WORKDIR /work
CMD ["gpuperf", "doctor"]
