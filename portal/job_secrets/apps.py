from django.apps import AppConfig


class JobSecretsConfig(AppConfig):
    name = "portal.job_secrets"
    label = "job_secrets"
