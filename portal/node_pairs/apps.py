from django.apps import AppConfig


class NodePairsConfig(AppConfig):
    name = "portal.node_pairs"
    label = "node_pairs"
