# One image with every program: /api, /scheduler-worker, /planner and /rubato. The final stage has
# no shell and no packages. It runs as an unprivileged user and writes no files.
#
# `make image` sets VERSION and COMMIT. Otherwise the version is "devel", because .git is not in the
# build context.

FROM golang:1.26-alpine AS build
RUN apk add --no-cache ca-certificates
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ARG COMMIT=
ENV CGO_ENABLED=0
# The time zone database is compiled into the programs, so that all hosts use the same version.
RUN go build -trimpath -ldflags="-s -w -X rubato/internal/telemetry.release=${VERSION} -X rubato/internal/telemetry.commit=${COMMIT}" \
    -o /out/ ./cmd/api ./cmd/scheduler-worker ./cmd/planner ./cmd/rubato

FROM scratch
ARG VERSION=
ARG COMMIT=
LABEL org.opencontainers.image.title="Rubato" \
      org.opencontainers.image.description="HTTP scheduler whose only coordinator is Postgres" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/api /api
COPY --from=build /out/scheduler-worker /scheduler-worker
COPY --from=build /out/planner /planner
COPY --from=build /out/rubato /rubato
COPY LICENSE NOTICE /
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/rubato"]
CMD ["--help"]
