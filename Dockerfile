# For Docker (BuildKit) and Podman. The tests check its names and paths, and build no image: they need no engine.
FROM rust:1.95-bookworm AS build
WORKDIR /build
# OpenSSL, librdkafka and SQLite are built from source with what this image has: C and C++ compilers, make and perl.
# zlib too: the runtime image has none.
ENV LIBZ_SYS_STATIC=1
# The dependencies first, in a layer of their own: they change less often than the code.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && echo 'fn main() {}' > src/main.rs && touch src/lib.rs README.md \
    && cargo build --release --locked --bin dispatcher && rm -r src
COPY . .
RUN touch src/main.rs src/lib.rs \
    && cargo build --release --locked --bin dispatcher \
    && strip target/release/dispatcher \
    && mkdir /data

# The C library and the public certificate authorities, no shell. Its user is `nonroot`.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /build/target/release/dispatcher /usr/local/bin/dispatcher
COPY --from=build --chown=nonroot:nonroot /data /data
WORKDIR /data
# Embedded mode keeps its file here. Cluster mode keeps nothing.
VOLUME /data
# From outside the container the API needs DISPATCHER_ADMIN_TOKEN (or DISPATCHER_ADMIN_TOKEN_FILE).
ENV DISPATCHER_DATA_DIR=/data DISPATCHER_API_HOST=0.0.0.0
# The C library keeps freed memory for the thread that had it: few pools, and it is there for all.
ENV MALLOC_ARENA_MAX=2
EXPOSE 4010
STOPSIGNAL SIGTERM
# Probes: GET /livez and GET /readyz.
ENTRYPOINT ["/usr/local/bin/dispatcher"]
CMD ["run"]
