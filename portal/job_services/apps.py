from django.apps import AppConfig


class JobServicesConfig(AppConfig):
    name = "portal.job_services"
    label = "job_services"
