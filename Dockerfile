# The image of web, worker, beat and migrate. Agents run on their nodes without one.
# One image for all of them: web plans, too, for dry runs and previews.
FROM python:3.11-slim AS portal
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PATH=/opt/tessera/bin:$PATH TESSERA_VAR=/var/lib/tessera
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/tessera --shell /usr/sbin/nologin tessera \
    && install -d -o tessera -g tessera /var/lib/tessera /var/lib/tessera/logs /var/lib/tessera/spool
WORKDIR /srv/tessera

# Packages have a layer of their own, so a change of the code does not install them again. They need
# neither pip nor the tests of numba, numpy and scipy, which are 70 MB.
COPY requirements/portal.lock requirements/s3.lock requirements/
# `docker compose build --build-arg S3=yes`: logs may be kept in an S3-compatible store.
ARG S3=no
RUN python -m venv --without-pip /opt/tessera \
    && pip --python /opt/tessera/bin/python install --require-hashes -r requirements/portal.lock \
    && if [ "$S3" = yes ]; then \
         pip --python /opt/tessera/bin/python install --require-hashes -r requirements/s3.lock; fi \
    && cd /opt/tessera/lib/python3.*/site-packages \
    && find numba numpy scipy -type d -name tests -prune -exec rm -r {} +

COPY manage.py ./
COPY agents/__init__.py agents/
COPY agents/collectives agents/collectives
COPY agents/combinations agents/combinations
COPY agents/configuration agents/configuration
COPY agents/contract agents/contract
COPY agents/host agents/host
COPY agents/launchers agents/launchers
COPY agents/profiler agents/profiler
COPY agents/tunnel agents/tunnel
COPY agents/workspace agents/workspace
COPY scheduler scheduler
COPY templates templates
COPY portal portal
# Nothing is compiled at run time, where all of this is read-only: neither bytecode (Python's image
# has none of its library) nor the planner's kernels. These are compiled for any processor of the
# architecture: numba would not load those of another model.
ENV DJANGO_SETTINGS_MODULE=portal.settings.prod NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=generic
RUN python -m compileall -q --invalidation-mode unchecked-hash manage.py agents scheduler portal \
    && python -m compileall -q --invalidation-mode unchecked-hash -x '/(site-packages|test|idlelib|lib2to3)/' \
         "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && install -d /opt/kernels && python -m scheduler.jit_warmup
# Production settings require a secret and a database URL; these exist for this command only. The page
# of the API is Swagger, so Redoc stays out.
RUN TESSERA_SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(64))')" \
    TESSERA_DATABASE_URL=postgres://nobody@localhost/none \
    python manage.py collectstatic --no-input --ignore redoc --verbosity 0
USER tessera
# Fails the build if a kernel is not there for this user, who cannot write it either.
RUN python -m scheduler.jit_warmup --from-cache && ! [ -w /opt/kernels ]
EXPOSE 8000
CMD ["uvicorn", "portal.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--no-proxy-headers", "--no-server-header", "--timeout-graceful-shutdown", "20"]
# That of agents/contract/version.py, and the commit: `--build-arg REVISION=$(git rev-parse HEAD)`.
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tessera portal" \
      org.opencontainers.image.description="Web, worker and beat of Tessera, a self-service GPU portal" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
