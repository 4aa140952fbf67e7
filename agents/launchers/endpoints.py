"""Where the processes of a gang can be reached, as `host:port`."""

from collections import Counter
from ipaddress import ip_address

from agents.contract.documents import DesiredReplica, Rendezvous

FIRST_PORT, LAST_PORT = 1_024, 65_535


def endpoint(address: str, port: int) -> str:
    """An IPv6 address needs brackets before a port."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def meeting_endpoint(meeting: Rendezvous) -> str:
    return endpoint(meeting.address, meeting.port)


def rank_endpoints(meeting: Rendezvous) -> list[str]:
    """One of each rank, in their order: the meeting's port at its own address. Ranks that share an
    address, as processes of one machine do, have the ports after it."""
    found, earlier = [], Counter[str]()
    for address in meeting.peers or (meeting.address,):
        port = meeting.port + earlier[address]
        if port > LAST_PORT:
            port -= LAST_PORT + 1 - FIRST_PORT
        found.append(endpoint(address, port))
        earlier[address] += 1
    return found


def own_ip(replica: DesiredReplica, meeting: Rendezvous) -> str:
    """The IP address at which the other ranks reach this one; "" if they know it by name."""
    address = meeting.peers[replica.rank] if replica.rank < len(meeting.peers) else ""
    try:
        return str(ip_address(address))
    except ValueError:
        return ""
