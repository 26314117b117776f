# Written for Docker and Podman; not run by scripts/test, which needs neither.
FROM rust:1.95-bookworm AS build
WORKDIR /build
# The dependencies first, in a layer of their own: they change less often than the code.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && echo 'fn main() {}' > src/main.rs && touch src/lib.rs README.md \
    && cargo build --release --locked && rm -r src
COPY . .
RUN touch src/main.rs src/lib.rs && cargo build --release --locked

FROM debian:bookworm-slim
# SQLite and the certificate authorities are in the binary: nothing is to be installed.
RUN useradd --system --uid 10001 --create-home --home-dir /data dispatcher
COPY --from=build /build/target/release/dispatcher /usr/local/bin/dispatcher
USER dispatcher
WORKDIR /data
VOLUME /data
# From outside the container the API needs DISPATCHER_ADMIN_TOKEN (or DISPATCHER_ADMIN_TOKEN_FILE).
ENV DISPATCHER_DATA_DIR=/data DISPATCHER_API_HOST=0.0.0.0
EXPOSE 4010
STOPSIGNAL SIGTERM
ENTRYPOINT ["dispatcher"]
CMD ["run"]
