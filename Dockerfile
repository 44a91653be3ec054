# One image for web, workers and migrations; docker-compose.yml says which runs what.
FROM python:3.11-slim-bookworm AS build
WORKDIR /app
COPY requirements.lock ./
RUN python -m venv /venv \
 && /venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.lock

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin assay \
 && install -d -o assay -g assay -m 0700 /data
COPY --from=build /venv /venv
WORKDIR /app
COPY manage.py ./
COPY judges judges
COPY auditapp auditapp
COPY templates templates
COPY static static
COPY docs/methodology docs/methodology
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ASSAY_HOME=/data \
    STATIC_COLLECTED=1
RUN ASSAY_HOME=/tmp/build python manage.py collectstatic --noinput && rm -r /tmp/build
USER 10001
VOLUME /data
EXPOSE 8000
CMD ["gunicorn", "auditapp.wsgi", "--bind", "0.0.0.0:8000", "--worker-class", "gthread", "--workers", "2", "--threads", "16", "--no-control-socket"]
