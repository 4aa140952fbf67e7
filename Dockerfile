# The image of web, worker, beat and migrate. Agents run on their nodes without one.
FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PATH=/opt/tessera/bin:$PATH TESSERA_VAR=/var/lib/tessera
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/tessera --shell /usr/sbin/nologin tessera \
    && install -d -o tessera -g tessera /var/lib/tessera /var/lib/tessera/logs
WORKDIR /srv/tessera

# Packages have a layer of their own, so a change of the code does not install them again.
FROM base AS portal-packages
COPY requirements/portal.lock requirements/s3.lock requirements/
RUN python -m venv /opt/tessera && pip install --require-hashes -r requirements/portal.lock
# `docker compose build --build-arg S3=yes`: logs may be kept in an S3-compatible store.
ARG S3=no
RUN if [ "$S3" = yes ]; then pip install --require-hashes -r requirements/s3.lock; fi

FROM base AS portal
COPY --from=portal-packages /opt/tessera /opt/tessera
COPY manage.py ./
COPY agents/__init__.py agents/
COPY agents/contract agents/contract
COPY scheduler scheduler
COPY templates templates
COPY portal portal
ENV DJANGO_SETTINGS_MODULE=portal.settings.prod
# Production settings require a secret and a database URL; these exist for this command only.
RUN TESSERA_SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(64))')" \
    TESSERA_DATABASE_URL=postgres://nobody@localhost/none \
    python manage.py collectstatic --no-input --verbosity 0
USER tessera
EXPOSE 8000
CMD ["uvicorn", "portal.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--no-proxy-headers", "--no-server-header", "--timeout-graceful-shutdown", "20"]
