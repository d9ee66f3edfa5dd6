# docker build --build-arg BASE_DIGEST=sha256:... --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
#   -t ray-webhook:0.1.0 .
# A tag of the base moves, so there is no build without its digest; docs/install.md says how to get it.

ARG BASE_DIGEST
FROM python:3.11.13-slim-bookworm@${BASE_DIGEST} AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY webhook ./webhook
# Wheels alone, each with its hash in constraints.txt, those of the build itself as well: the index is asked by the first
# command only.
RUN pip download --require-hashes --no-deps --only-binary :all: --dest /wheels --requirement constraints.txt \
    && export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels \
    && pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/ray-webhook \
    && pip --python /opt/ray-webhook/bin/python install --no-compile 'ray-webhook[serve,cluster]' \
    && python -m compileall --quiet --invalidation-mode unchecked-hash /opt/ray-webhook/lib \
    && find /opt/ray-webhook -exec touch --no-dereference --date=@$SOURCE_DATE_EPOCH {} +

FROM python:3.11.13-slim-bookworm@${BASE_DIGEST}
ARG SOURCE_DATE_EPOCH=0
ENV PATH=/opt/ray-webhook/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN rm -rf /usr/local/lib/python3.11/site-packages/* /usr/local/lib/python3.11/ensurepip /usr/local/bin/pip* ~/.cache
COPY --from=build /opt/ray-webhook /opt/ray-webhook
USER 65532:65532
EXPOSE 10250 8080
ENTRYPOINT ["ray-webhook"]
CMD ["serve"]
