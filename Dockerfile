# A release passes the base with its digest, since a tag moves: --build-arg BASE=python:3.13-slim-trixie@sha256:...
ARG BASE=python:3.13-slim-trixie
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY webhook ./webhook
COPY docs/rules ./docs/rules
COPY docs/diagnoses.md ./docs/
# Wheels alone, each with its hash in constraints.txt, those of the build itself as well: the index is asked by the first
# command only. Without the extra `cluster`: pods have a service account, and kubeconfigs need 128 MB.
RUN pip download --require-hashes --no-deps --only-binary :all: --dest /wheels --requirement constraints.txt \
    && export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels \
    && pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/ray-webhook \
    && pip --python /opt/ray-webhook/bin/python install --no-compile 'ray-webhook[serve]' \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/ray-webhook/lib \
    && find /opt/ray-webhook -exec touch --no-dereference --date=@$SOURCE_DATE_EPOCH {} +

FROM ${BASE}
ARG SOURCE_DATE_EPOCH=0
ARG VERSION=
ARG REVISION=
ARG SOURCE=
ENV PATH=/opt/ray-webhook/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title=ray-webhook \
    org.opencontainers.image.description="Admission webhook for Ray pods on Kubernetes" \
    org.opencontainers.image.licenses=Apache-2.0 \
    org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION \
    org.opencontainers.image.source=$SOURCE
RUN rm -rf /usr/local/lib/python3.13/site-packages/* /usr/local/lib/python3.13/ensurepip /usr/local/bin/pip* ~/.cache
COPY --from=build /opt/ray-webhook /opt/ray-webhook
USER 65532:65532
EXPOSE 10250 8080
ENTRYPOINT ["ray-webhook"]
CMD ["serve"]
