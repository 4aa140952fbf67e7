from django.apps import AppConfig


class ImagesConfig(AppConfig):
    name = "portal.images"
    label = "images"
