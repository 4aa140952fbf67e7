from django.apps import AppConfig


class WhatIfConfig(AppConfig):
    name = "portal.what_if"
    label = "what_if"
