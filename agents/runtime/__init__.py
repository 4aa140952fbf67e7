"""How replicas run: as containers of a Docker Engine, or as plain processes without one."""
