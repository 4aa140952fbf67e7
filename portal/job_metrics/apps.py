from django.apps import AppConfig


class JobMetricsConfig(AppConfig):
    name = "portal.job_metrics"
    label = "job_metrics"
