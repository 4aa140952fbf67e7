"""What the replicas of gangs run in the tests, and what is sent at them."""

import socket
import struct

# Rank 0 adds the numbers of all ranks, each of which finds it by name; and each finds itself.
SUM = """
import os, socket, time
own = socket.gethostbyname(socket.gethostname())
assert not own.startswith("127."), own
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert len({socket.gethostbyname(name) for name in os.environ["TESSERA_PEERS"].split(",")}) == world
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", place[1])) as server:
        total = 1
        for _ in range(world - 1):
            with server.accept()[0] as caller:
                total += int(caller.recv(100))
    print("sum", total, flush=True)
else:
    for _ in range(4_000):
        try:
            caller = socket.create_connection(place, timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    with caller:
        caller.sendall(str(rank + 1).encode())
    print("sent", flush=True)
"""
# By real PyTorch, which prints the sum of the ranks' numbers.
GLOO_SUM = """
import os, torch, torch.distributed as distributed
distributed.init_process_group("gloo")
number = torch.tensor(float(os.environ["RANK"]) + 1)
distributed.all_reduce(number)
print(number.item(), flush=True)
distributed.barrier()
distributed.destroy_process_group()
"""
# Listens at the ports until it is told to end, and prints every datagram.
LISTEN = """
import selectors, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
found = selectors.DefaultSelector()
for port in map(int, sys.argv[1:]):
    found.register(socket.create_server(("", port)), selectors.EVENT_READ)
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("", port))
    found.register(datagrams, selectors.EVENT_READ)
print("up", flush=True)
while True:
    for key, _ in found.select():
        if key.fileobj.type == socket.SOCK_STREAM:
            key.fileobj.accept()[0].close()
        else:
            print("datagram", key.fileobj.recv(2_000).decode(), flush=True)
"""
# Prints the addresses that take a connection, of "HOST:PORT" each.
REACHED = """
import concurrent.futures, socket, sys
def reached(place):
    host, port = place.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return ""
    return place
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    print(*filter(None, pool.map(reached, sys.argv[1:])))
"""
# Sends a datagram, in hexadecimal, to HOST PORT.
SEND = """
import socket, sys
host, port, data = sys.argv[1:]
socket.socket(type=socket.SOCK_DGRAM).sendto(bytes.fromhex(data), (host, int(port)))
"""


def link_packet(
    network_id: int, mac: str, source: str, target: str, port: int, words: bytes
) -> str:
    """What a link carries for a datagram to a replica, in hexadecimal: VXLAN, Ethernet, IP, UDP."""
    datagram = struct.pack("!HHHH", 4_000, port, 8 + len(words), 0) + words
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0) + addresses
    sum_of_words = sum(struct.unpack("!10H", head))
    folded = (sum_of_words & 0xFFFF) + (sum_of_words >> 16)
    head = head[:10] + struct.pack("!H", ~(folded + (folded >> 16)) & 0xFFFF) + head[12:]
    target_mac = bytes.fromhex(mac.replace(":", ""))
    frame = target_mac + b"\x02\x00\x00\x00\x00\x01" + b"\x08\x00" + head + datagram
    return (struct.pack("!II", 0x08 << 24, network_id << 8) + frame).hex()
