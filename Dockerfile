# One image for every program: /api, /scheduler-worker, /planner and /rubato. The final stage is empty but for them: no shell, no package, no
# user but an unprivileged one, and nothing that is written at run time.

FROM golang:1.26-alpine AS build
RUN apk add --no-cache ca-certificates
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The zone database is compiled into the programs, so that all of them agree on it whatever the machine has.
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/api ./cmd/scheduler-worker ./cmd/planner ./cmd/rubato

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/api /api
COPY --from=build /out/scheduler-worker /scheduler-worker
COPY --from=build /out/planner /planner
COPY --from=build /out/rubato /rubato
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/rubato"]
CMD ["--help"]
