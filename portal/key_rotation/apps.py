from django.apps import AppConfig


class KeyRotationConfig(AppConfig):
    name = "portal.key_rotation"
    label = "key_rotation"
