"""Limits of jobs, and of contact with nodes."""

from dataclasses import dataclass

from agents.configuration.declaration import setting
from agents.configuration.value_kinds import GANG_RANGE, whole_number
from portal.platform.readers import PLANNERS, WEB, WORKER


@dataclass(frozen=True)
class LimitSettings:
    image_allow: str = setting(
        "*", "Comma-separated patterns of the image names that jobs may use.", readers=PLANNERS
    )
    default_time_limit_seconds: int = setting(
        4 * 3600, "Of a job that names none.", kind=whole_number(1), readers=PLANNERS
    )
    max_time_limit_seconds: int = setting(
        7 * 24 * 3600, "The longest that a job may ask for.", kind=whole_number(1), readers=PLANNERS
    )
    max_replicas: int = setting(
        64, "Replicas that a job may have.", kind=whole_number(1), readers=PLANNERS
    )
    default_quota_units: int = setting(
        8 * 56_000,
        "The quota of a new project, in units (56,000 = one GPU).",
        readers=PLANNERS,
    )
    lease_seconds: int = setting(
        300,
        "An agent out of contact this long stops its work, unless its policy says otherwise.",
        kind=whole_number(1),
        readers=PLANNERS,
    )
    lease_margin_seconds: int = setting(
        15,
        "After a silent node must have stopped its work, until that is tried elsewhere.",
        readers=WORKER,
    )
    kill_grace_seconds: int = setting(
        30,
        "What an engine may need at least to stop a container, whatever its grace period.",
        readers=WORKER,
    )
    unreachable_seconds: int = setting(
        15,
        "Added to `hold_seconds`: a node without a call for 15 + 20 = 35 s is unreachable and gets "
        "no work.",
        readers=PLANNERS,
    )
    lost_seconds: int = setting(
        60,
        "Added to `hold_seconds`: a node without a call for 60 + 20 = 80 s is lost.",
        readers=WORKER,
    )
    hold_seconds: int = setting(
        20,
        "The longest time a sync call stays open while nothing changes, with 20 % jitter.",
        readers=PLANNERS,
    )
    agent_token_seconds: int = setting(
        900, "How long the token of an agent's session lives.", kind=whole_number(1), readers=WEB
    )
    join_token_seconds: int = setting(
        3600, "How long a join token may be used.", kind=whole_number(1), readers=WEB
    )
    prepare_timeout_seconds: int = setting(
        900, "A gang that is not ready by then is stopped and placed again.", readers=WORKER
    )
    rendezvous_timeout_seconds: int = setting(
        300,
        "Once one rank of a gang has started, the others have this long; then it is placed again. "
        "A rank whose node was out of contact has it anew.",
        kind=whole_number(1),
        readers=WORKER,
    )
    hung_warn_minutes: int = setting(
        60,
        "A gang that writes neither log nor metrics for so long is warned; 0: none is.",
        readers=PLANNERS,
    )
    hung_stop_minutes: int = setting(
        0,
        "So long after its last sign, it is stopped; 0: it is only warned. No gang may ask for "
        "more unless it has `idle_stop: false`.",
        readers=PLANNERS,
    )
    partition_dwell_seconds: int = setting(
        30,
        "A GPU keeps its idle slices this long after it was carved or merged.",
        readers=PLANNERS,
    )
    gang_network_range: str = setting(
        "10.213.0.0/16",
        "Addresses of replicas of gangs over several nodes. Nothing else that jobs or nodes reach "
        "may have an address of it. A gang of 8 replicas takes 16 addresses.",
        kind=GANG_RANGE,
        readers=PLANNERS,
    )
    nccl_tests_image: str = setting(
        "",
        "Image with which admins measure the network between two nodes, and gangs check theirs: "
        "nccl-tests built with MPI=1, Open MPI and Python 3. Empty: no pair is measured.",
        readers=PLANNERS,
    )
    preflight_hours: int = setting(
        24,
        "A gang that asks for a network check starts at once on nodes that were measured with each "
        "other within so many hours.",
        kind=whole_number(1),
        readers=WORKER,
    )
    telemetry_seconds: int = setting(
        5, "A node's sensor samples are stored at most this often.", readers=WEB
    )
