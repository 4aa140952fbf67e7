"""What the jobs of a project reach beyond their gang."""

from enum import StrEnum
from ipaddress import ip_network


class EgressPolicy(StrEnum):
    """Of a project, kept by each attempt. Metadata of a cloud and the services of a job's own node
    are shut in any case. A node reports `limits_egress` if it carries out all of them."""

    ALL = "all"
    # No private networks, but for the resolvers of names that the node itself asks.
    INTERNET = "internet"
    NONE = "none"


# Where machines learn who they are, with credentials: link-local in most clouds, else of Alibaba,
# Azure, AWS and Google.
METADATA_ADDRESSES = tuple(
    ip_network(text)
    for text in (
        *("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"),
        *("fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"),
    )
)
