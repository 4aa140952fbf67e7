"""The name of a replica's container, which is its hostname as well: always the same for the same
replica."""


def container_name(job: str, attempt: int, rank: int) -> str:
    return f"tessera-{job[:13]}-{attempt}-{rank}"
