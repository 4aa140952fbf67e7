"""The request form as a browser sends it."""


def a_form(**fields) -> dict[str, str]:
    form = {
        "project": "vision",
        "name": "probe",
        "image": "tessera-example:latest",
        "command": "python probe.py --lr '1e-4 '",
        "amount": "2g.35gb",
        "replicas": "1",
        "gpus": "1",
        "time_limit": "30m",
        "topology": "best",
        "launcher": "none",
        "priority": "normal",
        "cpu": "1",
        "memory": "1GiB",
        "env": "A=1\nB=x=y",
        "key": "once",
    }
    return form | fields
