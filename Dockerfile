# docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t ray-webhook:0.1.0 .
# Pin the digest of the base beside its tag in your own builds; both stages have to name the same one.

FROM python:3.11.13-slim-bookworm AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY webhook ./webhook
# Every version comes from constraints.txt, the build's own as well. Only wheels: nothing is compiled here.
RUN PIP_CONSTRAINT=constraints.txt pip wheel --wheel-dir /wheels --only-binary :all: --no-deps . \
    && python -m venv --without-pip /opt/ray-webhook \
    && pip --python /opt/ray-webhook/bin/python install --constraint constraints.txt --only-binary :all: --no-compile /wheels/*.whl \
    && python -m compileall --quiet --invalidation-mode unchecked-hash /opt/ray-webhook/lib \
    && find /opt/ray-webhook -exec touch --no-dereference --date=@$SOURCE_DATE_EPOCH {} +

FROM python:3.11.13-slim-bookworm
ARG SOURCE_DATE_EPOCH=0
ENV PATH=/opt/ray-webhook/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN rm -rf /usr/local/lib/python3.11/site-packages/* /usr/local/lib/python3.11/ensurepip /usr/local/bin/pip* ~/.cache
COPY --from=build /opt/ray-webhook /opt/ray-webhook
USER 65532:65532
EXPOSE 9443 8080
ENTRYPOINT ["ray-webhook"]
CMD ["serve"]
