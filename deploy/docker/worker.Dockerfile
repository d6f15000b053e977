# A worker: executes tasks for servers elsewhere. Slim, with a shell, so that `run` tasks have what scripts expect.
#   docker build -f deploy/docker/worker.Dockerfile -t mainspring-worker .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked -p mainspring && \
    install -D target/dist/mainspring /out/mainspring

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install -y --no-install-recommends bash ca-certificates curl tini && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --system --create-home --home-dir /work --uid 10001 mainspring
COPY --from=build /out/mainspring /usr/local/bin/mainspring
WORKDIR /work
USER 10001
ENV METRICS_PORT=9091
EXPOSE 9091
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/mainspring"]
CMD ["worker"]
