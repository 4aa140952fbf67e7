"""How replicas run: containers of a Docker Engine, or plain processes where none runs."""
