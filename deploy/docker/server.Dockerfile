# The server: API, scheduler, web interface. Nothing but the binary and certificates; runs as a user without rights.
#   docker build -f deploy/docker/server.Dockerfile -t mainspring-server .
# Tasks that run shell scripts need a shell: give this image the roles api and scheduler, and run the worker image beside it.
FROM node:22-bookworm-slim AS ui
WORKDIR /src/ui
COPY ui/package.json ui/package-lock.json ui/.npmrc ./
RUN npm install --no-save --no-audit --no-fund
COPY ui/ ./
COPY openapi.json /src/openapi.json
RUN npm run build

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
COPY --from=ui /src/ui/dist ui/dist
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked -p mainspring && \
    install -D target/dist/mainspring /out/mainspring && mkdir -p /out/data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/mainspring /usr/local/bin/mainspring
COPY --from=build --chown=65532:65532 /out/data /data
WORKDIR /data
USER 65532
ENV MAINSPRING_LISTEN=0.0.0.0:8080 METRICS_PORT=9090
EXPOSE 8080 9090
ENTRYPOINT ["/usr/local/bin/mainspring"]
CMD ["server", "--roles", "api,scheduler"]
